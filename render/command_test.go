package render_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/render"
)

func TestTemplatesAreStrict(t *testing.T) {
	for text, says := range map[string]string{
		"{sorce}":   "unknown field {sorce}",
		"-o{}":      "unknown field {}",
		"{source":   "a brace without its partner",
		"source}":   "a brace without its partner",
		"{{source}": "a brace without its partner",
		"{so{urce}": "unknown field {so{urce}",
	} {
		_, err := render.NewCommand(render.Program{Path: "x", Args: []string{text}})
		demandCode(t, err, lease.CodeRequestInvalid, says)
	}
	_, err := render.NewCommand(render.Program{Path: "x", Env: []string{"A={what}"}})
	demandCode(t, err, lease.CodeRequestInvalid, "unknown field {what}", "{source}")
	_, err = render.NewCommand(render.Program{})
	demandCode(t, err, lease.CodeRequestInvalid, "no program")
}

func TestTemplatesAreFilled(t *testing.T) {
	f := newFarm(t, 1)
	r := program(t, "args", render.Program{Args: []string{"{{{job}}}", "{slot} of {pool}", "{slots}", "{fence}", "{source}", "{sourcedir}", "{outputdir}"}})
	j := f.job("j")
	j.OutputKey = "deep/j.txt"
	receipt, err := execute(t, t.Context(), f.service(r), j)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(f.outputs, "deep", "j.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"{j}", "gpu-0 of gpu", "gpu/gpu-0", strconv.FormatUint(uint64(receipt.Fence), 10),
		filepath.Join(f.sources, "j.svg"), f.sources, filepath.Join(f.outputs, "deep")}
	if got := string(data); got != strings.Join(want, "\n") {
		t.Errorf("the arguments are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestProgramsAreParsed(t *testing.T) {
	p, err := render.ParseProgram("povray +W160 +H120")
	if err != nil || p.Path != "povray" || !strings.HasSuffix(strings.Join(p.Args, " "), " +W160 +H120") || p.Install == "" {
		t.Errorf("program %+v, error %v", p, err)
	}
	if again, _ := render.ParseProgram("povray"); strings.Contains(strings.Join(again.Args, " "), "+W160") {
		t.Error("the preset was changed")
	}
	if p, err := render.ParseProgram("./mine {source} {output}"); err != nil || p.Path != "./mine" || len(p.Args) != 2 {
		t.Errorf("program %+v, error %v", p, err)
	}
	_, err = render.ParseProgram("  ")
	demandCode(t, err, lease.CodeRequestInvalid, "blender, ffmpeg, povray")
	for _, name := range render.Presets() {
		p, err := render.ParseProgram(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render.NewCommand(p); err != nil {
			t.Errorf("preset %s: %v", name, err)
		}
	}
}

func TestK11_AFenceOfASharedSlotIsNotHandedOn(t *testing.T) {
	f := newFarm(t, 1)
	seats := []lease.PoolSpec{{Name: "seats", Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "nuke", Capacity: 20}}}}
	if _, err := f.broker.Apply(t.Context(), lease.SourceAPI, seats, false); err != nil {
		t.Fatal(err)
	}
	s := f.service(program(t, "env", render.Program{}))
	s.Lease.Claims = []lease.Claim{{Pool: "seats"}}
	j := f.job("j")
	j.OutputKey = "j.txt"
	if _, err := execute(t, t.Context(), s, j); err != nil {
		t.Fatal(err)
	}
	if env := environment(t, filepath.Join(f.outputs, "j.txt")); env["BERTH_SLOT"] != "nuke" || env["BERTH_FENCE"] != "" {
		t.Errorf("slot %q, fence %q", env["BERTH_SLOT"], env["BERTH_FENCE"])
	}
	s = f.service(program(t, "args", render.Program{Args: []string{"{fence}"}}))
	s.Lease.Claims = []lease.Claim{{Pool: "seats"}}
	_, err := execute(t, t.Context(), s, j)
	demandCode(t, err, lease.CodeRequestInvalid, "{fence}", "seats/nuke is shared")
}

func environment(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[name] = value
	}
	return env
}

func TestTheEnvironmentTellsOfTheLease(t *testing.T) {
	f := newFarm(t, 1)
	j := f.job("j")
	j.OutputKey = "j.txt"
	receipt, err := execute(t, t.Context(), f.service(program(t, "env", render.Program{Env: []string{"MINE={slot}"}})), j)
	if err != nil {
		t.Fatal(err)
	}
	env := environment(t, filepath.Join(f.outputs, "j.txt"))
	for name, want := range map[string]string{
		"BERTH_SLOT": "gpu-0", "BERTH_SLOTS": "gpu/gpu-0", "BERTH_POOL": "gpu", "BERTH_JOB": "j", "MINE": "gpu-0",
		"BERTH_FENCE": strconv.FormatUint(uint64(receipt.Fence), 10), "BERTH_LABEL_MODEL": "fast", "CUDA_VISIBLE_DEVICES": "dev-0",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
}

func TestBR079_AFailedProgramIsToldWithStatusAndTail(t *testing.T) {
	f := newFarm(t, 1)
	_, err := execute(t, t.Context(), f.service(program(t, "fail", render.Program{})), f.job("j"))
	demandCode(t, err, lease.CodeRendererFailed, "exit status 3", "the scene has no camera", "j.svg")
	demandFiles(t, f.outputs)
}

func TestAMissingProgramSaysWhatToType(t *testing.T) {
	f := newFarm(t, 1)
	c, err := render.NewCommand(render.Program{Path: "no-such-renderer", Install: "apt-get install it"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = execute(t, t.Context(), f.service(c), f.job("j"))
	demandCode(t, err, lease.CodeRendererMissing, "no-such-renderer", "apt-get install it")
}

func TestBR078_AGraceThatCannotFitIsRefused(t *testing.T) {
	f := newFarm(t, 1)
	s := f.service(program(t, "whole", render.Program{Grace: time.Hour}))
	_, err := execute(t, t.Context(), s, f.job("j"))
	demandCode(t, err, lease.CodeRequestInvalid, "21s", "1h0m0s + 1s")
}

// readyPid calls then with the child's pid once it says that it is ready.
type readyPid struct {
	buf  bytes.Buffer
	then func(pid int)
}

func (r *readyPid) Write(p []byte) (int, error) {
	r.buf.Write(p)
	if line, err := r.buf.ReadString('\n'); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "ready "))); err == nil {
			r.then(pid)
		}
	}
	return len(p), nil
}

func TestBR084_CancelledMeansThatTheProgramIsGone(t *testing.T) {
	f := newFarm(t, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the artist changed her mind")
	var pid int
	out := &readyPid{then: func(p int) { pid = p; cancel(why) }}
	_, err := execute(t, ctx, f.service(program(t, "hang", render.Program{Output: out, Grace: 50 * time.Millisecond})), f.job("j"))
	demandCode(t, err, lease.CodeCancelled, "changed her mind")
	if !errors.Is(err, why) {
		t.Errorf("error %v does not wrap the cause", err)
	}
	state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if s := strings.TrimSpace(string(state)); pid == 0 || s != "" && s[0] != 'Z' {
		t.Errorf("process %d is in state %q", pid, s)
	}
	demandFiles(t, f.outputs)
}

func TestATimeLimitHasItsOwnCode(t *testing.T) {
	f := newFarm(t, 1)
	s := f.service(program(t, "hang", render.Program{Grace: 10 * time.Millisecond}))
	s.Limit = func(render.Job) time.Duration { return 300 * time.Millisecond }
	_, err := execute(t, t.Context(), s, f.job("j"))
	demandCode(t, err, lease.CodeRendererTimedOut, "300ms")
	demandFiles(t, f.outputs)
}
