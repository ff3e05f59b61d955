package render_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/render"
)

// BR-033: the first attempt's lease is taken while it renders, and a second
// attempt renders the job meanwhile. The first is told why; what it writes
// late is not put in place, whether it then says that all went well or not,
// and its receipt shows no output. The second one's output stands, under the
// higher fence.
func TestBR033_OneAttemptWins(t *testing.T) {
	for name, says := range map[string]error{"it ends well": nil, "it fails": errors.New("the scene moved")} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, 2)
			j := f.job("j")
			first := &attempt{running: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan struct{}), says: says}
			go first.execute(t, f, j)
			<-first.running
			f.revoke()
			second, err := execute(t, t.Context(), f.service(rendererFunc(func(_ context.Context, w render.Work) error {
				return os.WriteFile(w.Output, small(t), 0o666)
			})), j)
			if err != nil || second.Bytes != int64(len(small(t))) {
				t.Fatalf("the second attempt: receipt %+v, error %v", second, err)
			}
			close(first.goOn)
			<-first.ended

			demandCode(t, first.cause, lease.CodeLeaseLost, "a test")
			demandCode(t, first.err, lease.CodeLeaseLost, "a test")
			if says != nil && !errors.Is(first.err, says) {
				t.Errorf("error %v has lost what the renderer said", first.err)
			}
			if r := first.receipt; r.Bytes != 0 || r.Fence == 0 || r.Fence >= second.Fence || r.Slot == second.Slot {
				t.Errorf("the first attempt's receipt is %+v, the second's %+v", r, second)
			}
			demandFiles(t, f.outputs, "j.png")
			if data, err := os.ReadFile(filepath.Join(f.outputs, "j.png")); err != nil || !bytes.Equal(data, small(t)) {
				t.Errorf("the output is not the second attempt's: %d bytes, %v", len(data), err)
			}
		})
	}
}

// An attempt renders, is told that it may not, waits all the same and writes.
type attempt struct {
	running, goOn, ended chan struct{}
	says                 error
	cause                error
	receipt              render.Receipt
	err                  error
}

func (a *attempt) execute(t *testing.T, f *farm, j render.Job) {
	defer close(a.ended)
	s := f.service(rendererFunc(func(ctx context.Context, w render.Work) error {
		close(a.running)
		<-ctx.Done()
		a.cause = context.Cause(ctx)
		<-a.goOn
		return errors.Join(paints(ctx, w), a.says)
	}))
	s.Lease.TTL = lease.MinTTL
	a.receipt, a.err = s.Execute(t.Context(), j)
}

// small returns a picture that is not [picture].
func small(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
