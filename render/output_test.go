package render_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/render"
	"github.com/berth-dev/berth/store"
)

func TestBR127_OnlyAWholeOutputAppears(t *testing.T) {
	for mode, code := range map[string]lease.Code{
		"whole": "", "nothing": lease.CodeOutputInvalid, "empty": lease.CodeOutputInvalid,
		"byte": lease.CodeOutputInvalid, "cut": lease.CodeOutputInvalid, "fail": lease.CodeRendererFailed,
	} {
		t.Run(mode, func(t *testing.T) {
			f := newFarm(t, 1)
			receipt, err := execute(t, t.Context(), f.service(program(t, mode, render.Program{})), f.job("j"))
			if code == "" {
				if err != nil || receipt.Bytes != int64(len(picture())) || receipt.Slot != "gpu/gpu-0" || receipt.Fence == 0 || receipt.Lease == "" {
					t.Errorf("receipt %+v, error %v", receipt, err)
				}
				demandFiles(t, f.outputs, "j.png")
				return
			}
			demandCode(t, err, code)
			demandFiles(t, f.outputs)
		})
	}
}

func TestBR127_AFailureLeavesTheOldOutput(t *testing.T) {
	f := newFarm(t, 1)
	old := filepath.Join(f.outputs, "j.png")
	write(t, old, "the old picture")
	_, err := execute(t, t.Context(), f.service(program(t, "cut", render.Program{})), f.job("j"))
	demandCode(t, err, lease.CodeOutputInvalid)
	if data, _ := os.ReadFile(old); string(data) != "the old picture" {
		t.Errorf("the output is now %q", data)
	}
	demandFiles(t, f.outputs, "j.png")
}

func TestTheStagedNameIsTheLeasesOwn(t *testing.T) {
	f := newFarm(t, 1)
	var staged string
	j := f.job("j")
	j.OutputKey = "frames/j.0001.png"
	_, err := execute(t, t.Context(), f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
		staged = w.Output
		return paints(ctx, w)
	})), j)
	if err != nil {
		t.Fatal(err)
	}
	if dir, name := filepath.Split(staged); dir != filepath.Join(f.outputs, "frames")+string(filepath.Separator) ||
		!regexp.MustCompile(`^\.j\.0001\.\d+-[0-9a-f]{12}\.staged\.png$`).MatchString(name) {
		t.Errorf("staged at %s", staged)
	}
	demandFiles(t, f.outputs, "frames/j.0001.png")
}

func TestAnOutputCannotLeaveItsDirectoryByALink(t *testing.T) {
	f := newFarm(t, 1)
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(f.outputs, "link")); err != nil {
		t.Fatal(err)
	}
	j := f.job("j")
	j.OutputKey = "link/j.png"
	_, err := execute(t, t.Context(), f.service(paints), j)
	demandCode(t, err, lease.CodeOutputFailed)
	demandFiles(t, elsewhere)
}

// The renderer ignores that the lease was lost, and ends well.
func TestBR029_AnOutputOfALostLeaseIsNotPutInPlace(t *testing.T) {
	f := newFarm(t, 1)
	s := f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
		f.revoke()
		<-ctx.Done()
		return paints(ctx, w)
	}))
	s.Lease.TTL = lease.MinTTL
	receipt, err := execute(t, t.Context(), s, f.job("j"))
	demandCode(t, err, lease.CodeLeaseLost)
	if receipt.Bytes != 0 {
		t.Errorf("receipt %+v", receipt)
	}
	demandFiles(t, f.outputs)
}

// revoke takes the one lease there is.
func (f *farm) revoke() {
	status, err := f.broker.Status(f.t.Context(), false)
	if err == nil {
		for _, s := range status.Pools[0].Slots {
			for _, l := range s.Leases {
				err = f.broker.Revoke(f.t.Context(), l.Ref, "a test")
			}
		}
	}
	if err != nil {
		f.t.Error(err)
	}
}

func TestALostLeaseStopsTheRenderer(t *testing.T) {
	f := newFarm(t, 1)
	out := &readyPid{then: func(int) { f.revoke() }}
	s := f.service(program(t, "hang", render.Program{Output: out, Grace: 20 * time.Millisecond}))
	s.Lease.TTL = lease.MinTTL
	_, err := execute(t, t.Context(), s, f.job("j"))
	demandCode(t, err, lease.CodeLeaseLost)
	demandFiles(t, f.outputs)
}

func TestBR127_SkippingDemandsAWholePicture(t *testing.T) {
	whole := picture()
	for name, c := range map[string]struct {
		there   []byte
		skipped bool
	}{"whole": {whole, true}, "one byte": {whole[:1], false}, "cut": {whole[:len(whole)-13], false}, "empty": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, 1)
			s := f.service(paints)
			s.SkipExisting = true
			j := f.job("j")
			write(t, filepath.Join(f.outputs, "j.png"), string(c.there))
			receipt, err := execute(t, t.Context(), s, j)
			if err != nil || receipt.Skipped != c.skipped || receipt.Bytes != int64(len(whole)) {
				t.Errorf("receipt %+v, error %v", receipt, err)
			}
			if data, _ := os.ReadFile(filepath.Join(f.outputs, "j.png")); !bytes.Equal(data, whole) {
				t.Errorf("the output has %d bytes, want %d", len(data), len(whole))
			}
		})
	}
}

// A process that is killed in mid-render leaves its staged file; the next one
// removes it and renders.
func TestBR127_AKilledServiceLeavesNothingForLater(t *testing.T) {
	outputs := t.TempDir()
	cmd := exec.Command(os.Args[0], "-", outputs)
	cmd.Env = append(os.Environ(), childMode+"=serve")
	if err := cmd.Run(); err == nil {
		t.Fatal("the service was not killed")
	}
	if left := files(t, outputs); len(left) != 1 || left[0] == "j.png" {
		t.Fatalf("the killed service left %q", left)
	}
	stranger := ".other.1-abc.staged.png"
	write(t, filepath.Join(outputs, stranger), "of another output")
	f := newFarm(t, 1) // a later start, with higher fences
	j := f.job("j")
	s := f.service(paints)
	s.Outputs = outputs
	s.SkipExisting = true
	if receipt, err := execute(t, t.Context(), s, j); err != nil || receipt.Skipped {
		t.Errorf("receipt %+v, error %v", receipt, err)
	}
	demandFiles(t, outputs, stranger, "j.png")
}

// serveThenDie renders into a directory and kills itself in the middle.
func serveThenDie(outputs string) {
	ctx := context.Background()
	b, err := broker.Open(ctx, broker.Config{Store: store.NewMemory(store.Limits{})})
	if err != nil {
		panic(err)
	}
	go b.Run(ctx)
	spec := lease.PoolSpec{Name: "gpu", Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "gpu-0"}}}
	if _, err := b.Apply(ctx, lease.SourceFile, []lease.PoolSpec{spec}, false); err != nil {
		panic(err)
	}
	k, err := hold.New(hold.Config{Broker: b})
	if err != nil {
		panic(err)
	}
	s := &render.Service{
		Keeper: k, Outputs: outputs, Lease: lease.Request{Claims: []lease.Claim{{Pool: "gpu"}}},
		Renderer: func(render.Job) render.Renderer {
			return rendererFunc(func(_ context.Context, w render.Work) error {
				whole := picture()
				err := os.WriteFile(w.Output, whole[:len(whole)/2], 0o666)
				self, _ := os.FindProcess(os.Getpid())
				return errors.Join(err, self.Kill())
			})
		},
	}
	s.Execute(ctx, render.Job{JobID: "j", SourceKey: os.Args[0], OutputKey: "j.png"})
	select {}
}

// Of a kind of file that cannot be decoded here something must at least be there.
func TestBR127_AnEmptyOutputOfAnyKindIsRefused(t *testing.T) {
	f := newFarm(t, 1)
	j := f.job("j")
	j.OutputKey = "j.exr"
	_, err := execute(t, t.Context(), f.service(program(t, "empty", render.Program{})), j)
	demandCode(t, err, lease.CodeOutputInvalid, "it is empty")
	demandFiles(t, f.outputs)
}
