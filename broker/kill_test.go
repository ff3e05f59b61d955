package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/broker"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/pebble"
)

// The environment of the process that is killed, and of the test's length.
const (
	victimDir   = "BERTH_CRASH_DIR"
	crashRounds = "BERTH_CRASH_ROUNDS"
)

// The victim's slots and callers.
const (
	victimSlots   = 24
	victimCallers = 32
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		fmt.Fprintln(os.Stderr, beVictim(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beVictim runs a broker under load and writes one line for each call: before
// it is made, and once it is answered. It ends by being killed.
func beVictim(dir string) error {
	ctx := context.Background()
	s, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		return err
	}
	b, err := broker.Open(ctx, broker.Config{Store: s})
	if err != nil {
		return err
	}
	v := &victim{Broker: b, failed: make(chan error, 1)}
	go func() { v.fail(b.Run(ctx)) }()
	if _, err := b.Apply(ctx, lease.SourceFile, []lease.PoolSpec{poolWith("g", lease.Settings{TTL: time.Hour}, names(victimSlots)...)}, false); err != nil {
		return err
	}
	for range victimCallers {
		go v.work(ctx)
	}
	return <-v.failed
}

type victim struct {
	*broker.Broker
	mu     sync.Mutex // of the standard output
	failed chan error
}

func (v *victim) fail(err error) {
	select {
	case v.failed <- err:
	default:
	}
}

func (v *victim) say(words ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := fmt.Println(words...); err != nil {
		v.fail(err)
	}
}

// work acquires and releases.
func (v *victim) work(ctx context.Context) {
	for {
		r := wish(time.Hour)
		v.say("acquire", string(r.ID))
		token, err := v.Acquire(ctx, r)
		if err != nil {
			v.fail(err)
			return
		}
		v.say("acquired", string(r.ID), string(token.LeaseID), uint64(token.Fence), token.Slots[0].ID)
		dawdle(10)
		v.say("release", string(r.ID))
		if err := v.Release(ctx, token); err != nil {
			v.fail(err)
			return
		}
		v.say("released", string(r.ID))
	}
}

// A known is what the killed process had said of one request.
type known struct {
	lease.Token
	said string // the last word about it
}

// A witness is who reads what the victims say, over all their lives.
type witness struct {
	dir string
	// requests are those that have not ended for sure; ended counts the rest.
	requests map[lease.RequestID]*known
	ended    uint64
	heard    int // answers
	doubtful int // calls that a kill left without an answer
	mu       sync.Mutex
	last     map[string]lease.Fence // of each slot, guarded by mu
}

// A process with a broker in it is killed at random moments, many times over
// on the same directory. Nothing that it had acknowledged is lost.
func TestKill(t *testing.T) {
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv(crashRounds)); err == nil {
		rounds = n
	}
	w := &witness{dir: t.TempDir(), requests: map[lease.RequestID]*known{}, last: map[string]lease.Fence{}}
	for round := range rounds {
		lines := rand.IntN(2000)
		if round%5 == 4 {
			lines = rand.IntN(3) // while it starts
		}
		w.kill(t, lines)
		w.check(t)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d kills: %d requests, %d answers before them, %d calls without an answer", rounds, w.ended, w.heard, w.doubtful)
}

// kill starts a victim, hears so many lines and kills it. What it had written
// before it died is heard too.
func (w *witness) kill(t *testing.T, lines int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), victimDir+"="+w.dir)
	last := &strings.Builder{}
	cmd.Stderr = last
	out, err := cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	read := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			mustDo(t, cmd.Process.Kill())
		}
		line, err := read.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		mustDo(t, err)
		w.hear(t, strings.Fields(line))
	}
	if cmd.Wait(); last.Len() > 0 {
		t.Fatalf("the victim ended by itself: %s", last)
	}
}

// hear takes in one line.
func (w *witness) hear(t *testing.T, words []string) {
	t.Helper()
	id := lease.RequestID(words[1])
	switch words[0] {
	case "acquire":
		w.requests[id] = &known{}
	case "acquired":
		fence, err := strconv.ParseUint(words[3], 10, 64)
		mustDo(t, err)
		k := w.requests[id]
		k.RequestID, k.LeaseID, k.Fence = id, lease.LeaseID(words[2]), lease.Fence(fence)
		w.fence(t, words[4], k.Fence)
	}
	w.requests[id].said = words[0]
	if strings.HasSuffix(words[0], "d") {
		w.heard++
	}
}

// fence checks that fences grow on a slot. A slot's holders say theirs one
// after the other.
func (w *witness) fence(t *testing.T, slot string, fence lease.Fence) {
	t.Helper()
	if fence <= w.last[slot] {
		t.Errorf("slot %s has the fence %d after %d", slot, fence, w.last[slot])
	}
	w.last[slot] = fence
}

// check asks a new broker on the directory about everything that was said.
func (w *witness) check(t *testing.T) {
	t.Helper()
	s, err := pebble.Open(w.dir, pebble.Config{})
	mustDo(t, err)
	f := open(t, s)
	w.checkTotals(t, f.audit(t))
	for id, k := range w.requests {
		w.checkOne(t, f, id, k)
	}
	w.settle(t, f)
	mustDo(t, f.stop())
	mustDo(t, s.Close())
}

func (w *witness) checkTotals(t *testing.T, s lease.Status) {
	t.Helper()
	var acquired, released uint64
	for _, k := range w.requests {
		if k.LeaseID != "" {
			acquired++
		}
		if k.said == "released" {
			released++
		}
	}
	if s.Acquired < acquired || s.Released < released || s.Orphaned+s.Revoked > 0 {
		t.Errorf("%d acquires and %d releases were answered, the broker says %+v", acquired, released, s)
	}
}

// checkOne asks about one request what its last word allows.
func (w *witness) checkOne(t *testing.T, f farm, id lease.RequestID, k *known) {
	t.Helper()
	if !strings.HasSuffix(k.said, "d") {
		w.doubtful++
	}
	if k.said == "acquire" {
		return
	}
	again, err := f.Renew(t.Context(), k.Token)
	switch k.said {
	case "acquired":
		if err != nil || again.Fence != k.Fence {
			t.Errorf("request %s was granted fence %d, and is now %+v, %v", id, k.Fence, again, err)
		}
	case "released":
		wantCode(t, err, lease.CodeLeaseReleased)
	case "release":
		if err != nil {
			wantCode(t, err, lease.CodeLeaseReleased)
		}
	}
}

// settle brings what hangs to its end, so that the totals can be told exactly:
// leases are released but for a few, which go on into the next life, and
// requests without an answer are made again with the same id.
func (w *witness) settle(t *testing.T, f farm) {
	t.Helper()
	kept := 0
	var again sync.WaitGroup
	for id, k := range w.requests {
		switch {
		case k.said == "acquired" && kept < victimSlots/4:
			kept++
			continue
		case k.said == "acquire":
			again.Go(func() { w.finish(t, f, id) })
		case k.said != "released":
			mustDo(t, f.Release(t.Context(), k.Token))
		}
		w.ended++
		delete(w.requests, id)
	}
	again.Wait()
	s := f.audit(t)
	if s.Acquired != w.ended+uint64(kept) || s.Released != w.ended || s.Queued != 0 || s.Free != s.Slots-kept {
		t.Errorf("%d requests have ended and %d are held, the broker says %+v", w.ended, kept, s)
	}
}

// finish acquires and releases under an id of which nothing was answered: it
// waits, or has a lease, or never came.
func (w *witness) finish(t *testing.T, f farm, id lease.RequestID) {
	r := wish(time.Hour)
	r.ID = id
	token, err := f.Acquire(t.Context(), r)
	if err != nil {
		t.Errorf("request %s was not answered before the kill, and not after: %v", id, err)
		return
	}
	w.mu.Lock()
	w.fence(t, token.Slots[0].ID, token.Fence)
	w.mu.Unlock()
	if err := f.Release(t.Context(), token); err != nil {
		t.Error(err)
	}
}
