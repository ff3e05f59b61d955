package render_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/hold"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/render"
	"github.com/berth-dev/berth/store"
)

// lastResort ends a test that hangs.
const lastResort = 20 * time.Second

// A farm is a running broker with one pool, a keeper and directories.
type farm struct {
	t        *testing.T
	broker   *broker.Broker
	keeper   *hold.Keeper
	stop     func() // ends the broker and waits for that
	sources  string
	outputs  string
	steps    []render.Step
	observed sync.Mutex
}

// newFarm starts a broker with so many slots in pool gpu. At the test's end
// every slot must be free, unless the broker was stopped.
func newFarm(t *testing.T, slots int) *farm {
	t.Helper()
	f := &farm{t: t, sources: t.TempDir(), outputs: t.TempDir()}
	memory := store.NewMemory(store.Limits{})
	b, err := broker.Open(t.Context(), broker.Config{Store: memory})
	if err != nil {
		t.Fatal(err)
	}
	f.broker = b
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx)
	}()
	f.stop = func() {
		cancel()
		<-ended
	}
	spec := lease.PoolSpec{Name: "gpu", Settings: &lease.Settings{}}
	for i := range slots {
		spec.Slots = append(spec.Slots, lease.SlotSpec{ID: "gpu-" + string(rune('0'+i)), Labels: map[string]string{"model": "fast", "device": "dev-" + string(rune('0'+i))}})
	}
	if _, err := b.Apply(t.Context(), lease.SourceFile, []lease.PoolSpec{spec}, false); err != nil {
		t.Fatal(err)
	}
	if f.keeper, err = hold.New(hold.Config{Broker: b, ReleaseLimit: 200 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		limited, cancel := context.WithTimeout(context.Background(), lastResort)
		defer cancel()
		if ctx.Err() == nil {
			if err := f.keeper.Close(limited); err != nil {
				t.Error(err)
			}
			f.audit(limited)
		}
		f.stop()
	})
	return f
}

// audit demands that no slot is held and the books agree.
func (f *farm) audit(ctx context.Context) {
	f.t.Helper()
	s, err := f.broker.Status(ctx, true)
	if err != nil {
		f.t.Fatal(err)
	}
	if s.Held != 0 || s.Queued != 0 || s.Acquired != s.Released+s.Orphaned+s.Revoked {
		f.t.Errorf("acquired %d, released %d, orphaned %d, revoked %d, held %d, queued %d", s.Acquired, s.Released, s.Orphaned, s.Revoked, s.Held, s.Queued)
	}
}

func (f *farm) service(r render.Renderer) *render.Service {
	return &render.Service{
		Keeper: f.keeper, Sources: f.sources, Outputs: f.outputs,
		Lease:    lease.Request{Claims: []lease.Claim{{Pool: "gpu"}}, Wait: time.Minute},
		Renderer: func(render.Job) render.Renderer { return r },
		Observe: func(s render.Step) {
			f.observed.Lock()
			defer f.observed.Unlock()
			f.steps = append(f.steps, s)
		},
	}
}

// job returns a job whose source is there.
func (f *farm) job(id string) render.Job {
	f.t.Helper()
	write(f.t, filepath.Join(f.sources, id+".svg"), square)
	return render.Job{JobID: id, SourceKey: id + ".svg", OutputKey: id + ".png"}
}

const square = `<svg viewBox="0 0 4 4"><rect width="4" height="4" fill="red"/></svg>`

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// files lists what is below a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func demandFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := files(t, dir); !slices.Equal(got, want) {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
}

func demandCode(t *testing.T, err error, want lease.Code, says ...string) {
	t.Helper()
	if got := lease.CodeOf(err); got != want {
		t.Errorf("code %q of error %v, want %q", got, err, want)
	}
	for _, text := range says {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}

// picture returns a PNG of some size.
func picture() []byte {
	var b bytes.Buffer
	img := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for i := range img.Pix {
		img.Pix[i] = byte(i * i)
	}
	if err := png.Encode(&b, img); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// A rendererFunc is a renderer in this process.
type rendererFunc func(ctx context.Context, w render.Work) error

func (f rendererFunc) Render(ctx context.Context, w render.Work) error { return f(ctx, w) }

// paints writes a whole picture.
var paints = rendererFunc(func(_ context.Context, w render.Work) error {
	return os.WriteFile(w.Output, picture(), 0o666)
})

func execute(t *testing.T, ctx context.Context, s *render.Service, j render.Job) (render.Receipt, error) {
	t.Helper()
	type result struct {
		receipt render.Receipt
		err     error
	}
	done := make(chan result, 1)
	go func() {
		receipt, err := s.Execute(ctx, j)
		done <- result{receipt, err}
	}()
	select {
	case r := <-done:
		return r.receipt, r.err
	case <-time.After(lastResort):
		t.Fatal("Execute does not return")
		return render.Receipt{}, errors.New("unreachable")
	}
}
