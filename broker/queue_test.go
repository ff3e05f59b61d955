package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/lease"
)

func TestCancelledAcquireLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		first := f.take(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		waiter := begin(ctx, f, wish(time.Minute))
		synctest.Wait()
		cancel(errMind)
		if got := <-waiter; !errors.Is(got.err, errMind) {
			t.Fatalf("the cancelled acquire returned %v", got.err)
		}
		mustDo(t, f.Release(t.Context(), first))
		if s := f.audit(t); s.Queued != 0 || s.Free != 1 {
			t.Fatalf("left behind: %+v", s)
		}
	})
}

// A slot comes free and its waiter is cancelled at about the same time.
func TestBR002CancelAroundTheGrant(t *testing.T) {
	f := open(t, uneven{memory()}, pool("g", "g-0", "g-1"))
	f.take(t)
	granted := 0
	for range 2000 {
		token := f.take(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		waiter := begin(ctx, f, wish(time.Minute))
		var both sync.WaitGroup
		both.Go(func() {
			dawdle(60)
			if err := f.Release(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			dawdle(60)
			cancel(errMind)
		})
		got := <-waiter
		both.Wait()
		got.exactlyOne(t)
		live := uint64(1)
		if got.err == nil {
			granted++
			live++
		} else if !errors.Is(got.err, errMind) {
			t.Fatal(got.err)
		}
		if s := f.audit(t); s.Held != live || s.Queued != 0 || s.Quarantined != 0 {
			t.Fatalf("%d guards are live, the broker says %+v", live, s)
		}
		if got.err == nil {
			mustDo(t, f.Release(t.Context(), got.token))
		}
	}
	t.Logf("%d of 2000 were granted", granted)
}

func TestBR004K16RetriesShareOneWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0"))
		token := f.take(t)
		began := time.Now()
		r := wish(3 * time.Second)
		first := begin(t.Context(), f, r)
		time.Sleep(time.Second)
		second := begin(t.Context(), f, r)
		time.Sleep(time.Second)
		if s := f.audit(t); s.Queued != 1 {
			t.Fatalf("%d entries are queued, want 1", s.Queued)
		}
		wantCode(t, (<-first).err, lease.CodeTimedOut)
		wantCode(t, (<-second).err, lease.CodeTimedOut)
		if took := time.Since(began); took < 3*time.Second || took > 3500*time.Millisecond {
			t.Fatalf("the wait of 3 s took %v", took)
		}
		mustDo(t, f.Release(t.Context(), token))
		_, err := f.Acquire(t.Context(), r)
		wantCode(t, err, lease.CodeTimedOut)
		if s := f.audit(t); s.Acquired != 1 || s.Free != 1 {
			t.Fatalf("something was granted later: %+v", s)
		}
	})
}

func TestBR005OneSlotOneOwner(t *testing.T) {
	s := memory()
	f := open(t, uneven{s}, pool("g", "g-0"))
	for round := range 2 {
		var mu sync.Mutex
		var all sync.WaitGroup
		var granted []lease.Token
		for i := range 64 {
			all.Go(func() {
				wait := time.Duration(i%2) * time.Millisecond
				token, err := f.Acquire(t.Context(), wish(wait))
				if code := lease.CodeOf(err); err != nil && code != lease.CodeNoCapacity && code != lease.CodeTimedOut {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					granted = append(granted, token)
				}
			})
		}
		all.Wait()
		if len(granted) != 1 {
			t.Fatalf("round %d: %d grants of one slot", round, len(granted))
		}
		f.audit(t)
		mustDo(t, f.stop())
		f = open(t, uneven{s})
		mustDo(t, f.Release(t.Context(), granted[0]))
	}
}

func TestBR035CancelledBigWaiterMakesWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := open(t, memory(), pool("g", "g-0", "g-1"))
		f.take(t)
		ctx, cancel := context.WithCancel(t.Context())
		big := wish(time.Hour)
		big.Claims[0].Count = 2
		a := begin(ctx, f, big)
		synctest.Wait()
		b := begin(t.Context(), f, wish(time.Hour))
		synctest.Wait()
		if s := f.audit(t); s.Queued != 2 {
			t.Fatalf("%d wait, want both", s.Queued)
		}
		began := time.Now()
		cancel()
		if got := <-a; !errors.Is(got.err, context.Canceled) {
			t.Fatal(got.err)
		}
		mustDo(t, (<-b).err)
		if took := time.Since(began); took != 0 {
			t.Fatalf("granted %v after the cancel", took)
		}
	})
}

// A waiter's call ends after 30 s and it asks again. A slot that comes free
// just then is the waiter's.
func TestK6TheGapBetweenTwoCalls(t *testing.T) {
	for i := range 40 {
		offset := time.Duration(rand.Int64N(int64(2*time.Millisecond))) - time.Millisecond
		if i%2 == 0 {
			offset = 0
		}
		bubble(t, func(t *testing.T) {
			f := open(t, memory(), poolWith("g", lease.Settings{TTL: time.Minute}, "g-0"))
			token := f.take(t)
			first := begin(t.Context(), f, wish(time.Hour))
			synctest.Wait()
			second := begin(t.Context(), f, wish(time.Hour))
			time.Sleep(lease.MaxPoll + offset)
			mustDo(t, f.Release(t.Context(), token))
			synctest.Wait()
			select {
			case got := <-first:
				mustDo(t, got.err)
				mustDo(t, f.Release(t.Context(), got.token))
			default:
				t.Fatalf("the first waiter did not get the slot that came free %v after its call ended", offset)
			}
			mustDo(t, (<-second).err)
		})
	}
}

// After a restart those who waited come back in the wrong order.
func TestK7RestartKeepsTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, pool("g", "g-0"))
		token := f.take(t)
		wishes := make([]lease.Request, 50)
		waiters := make([]<-chan outcome, len(wishes))
		for i := range wishes {
			wishes[i] = wish(time.Hour)
			waiters[i] = begin(t.Context(), f, wishes[i])
			synctest.Wait()
		}
		mustDo(t, f.stop())
		for _, w := range waiters {
			wantCode(t, (<-w).err, lease.CodeOutcomeUnknown)
		}
		f = open(t, s)
		last := len(wishes) - 1
		waiters[last] = begin(t.Context(), f, wishes[last])
		synctest.Wait()
		mustDo(t, f.Release(t.Context(), token))
		synctest.Wait()
		for i := last - 1; i >= 0; i-- {
			waiters[i] = begin(t.Context(), f, wishes[i])
			synctest.Wait()
		}
		for i, w := range waiters {
			got := <-w
			mustDo(t, got.err)
			if s := f.audit(t); s.Queued != last-i {
				t.Fatalf("waiter %d was granted while %d wait, want %d", i, s.Queued, last-i)
			}
			mustDo(t, f.Release(t.Context(), got.token))
		}
	})
}

// However a slot comes free, whoever waits gets it at once.
func TestBR043EveryWayOfFreeingServesTheQueue(t *testing.T) {
	larger := pool("g", "g-0")
	larger.Slots[0].Capacity = 2
	for name, c := range map[string]struct {
		// before brings the pool to where a waiter waits; free ends that.
		before, free func(ctx context.Context, f farm, token lease.Token) error
	}{
		"release": {
			func(ctx context.Context, f farm, token lease.Token) error { return nil },
			func(ctx context.Context, f farm, token lease.Token) error { return f.Release(ctx, token) },
		},
		"clear": {
			func(ctx context.Context, f farm, token lease.Token) error { return f.Abandon(ctx, token, "stuck") },
			func(ctx context.Context, f farm, token lease.Token) error {
				return f.Clear(ctx, "g", "g-0", token.LeaseID.Ref())
			},
		},
		"late release": {
			func(ctx context.Context, f farm, token lease.Token) error {
				return f.Revoke(ctx, token.LeaseID.Ref(), "needed")
			},
			func(ctx context.Context, f farm, token lease.Token) error {
				return wantEnd(f.Release(ctx, token), lease.CodeLeaseRevoked)
			},
		},
		"undrain the pool": {
			func(ctx context.Context, f farm, token lease.Token) error {
				return errors.Join(f.Drain(ctx, "g", ""), f.Release(ctx, token))
			},
			func(ctx context.Context, f farm, token lease.Token) error { return f.Undrain(ctx, "g", "") },
		},
		"undrain the slot": {
			func(ctx context.Context, f farm, token lease.Token) error {
				return errors.Join(f.Drain(ctx, "g", "g-0"), f.Release(ctx, token))
			},
			func(ctx context.Context, f farm, token lease.Token) error { return f.Undrain(ctx, "g", "g-0") },
		},
		"health": {
			func(ctx context.Context, f farm, token lease.Token) error {
				return errors.Join(f.Health(ctx, "g", "g-0", "too hot"), f.Release(ctx, token))
			},
			func(ctx context.Context, f farm, token lease.Token) error { return f.Health(ctx, "g", "g-0", "") },
		},
		"another slot": {
			func(ctx context.Context, f farm, token lease.Token) error { return nil },
			func(ctx context.Context, f farm, token lease.Token) error {
				_, err := f.Apply(ctx, lease.SourceFile, []lease.PoolSpec{pool("g", "g-0", "g-1")}, false)
				return err
			},
		},
		"more units": {
			func(ctx context.Context, f farm, token lease.Token) error { return nil },
			func(ctx context.Context, f farm, token lease.Token) error {
				_, err := f.Apply(ctx, lease.SourceFile, []lease.PoolSpec{larger}, false)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := open(t, memory(), pool("g", "g-0"))
				token := f.take(t)
				mustDo(t, c.before(t.Context(), f, token))
				waiter := begin(t.Context(), f, wish(time.Hour))
				synctest.Wait()
				if s := f.audit(t); s.Queued != 1 {
					t.Fatalf("nobody waits: %+v", s)
				}
				began := time.Now()
				mustDo(t, c.free(t.Context(), f, token))
				mustDo(t, (<-waiter).err)
				if took := time.Since(began); took != 0 {
					t.Fatalf("granted %v later", took)
				}
				f.audit(t)
			})
		})
	}
}

// wantEnd returns nil for an error with that code.
func wantEnd(err error, want lease.Code) error {
	if lease.CodeOf(err) == want {
		return nil
	}
	return fmt.Errorf("got %w, want the code %s", err, want)
}

func TestBR043RestartServesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := memory()
		f := open(t, s, pool("g", "g-0"))
		token := f.take(t)
		r := wish(time.Hour)
		waiter := begin(t.Context(), f, r)
		synctest.Wait()
		mustDo(t, f.stop())
		wantCode(t, (<-waiter).err, lease.CodeOutcomeUnknown)
		f = open(t, s)
		mustDo(t, f.Release(t.Context(), token))
		second, err := f.Acquire(t.Context(), r)
		mustDo(t, err)
		if second.Fence <= token.Fence {
			t.Fatalf("fence %d after %d", second.Fence, token.Fence)
		}
	})
}

// Callers of every kind at once, checked by the totals at the end.
func TestManyCallers(t *testing.T) {
	f := open(t, uneven{memory()}, pool("g", names(4)...))
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			caller := f.As(lease.Caller(fmt.Sprint("caller ", i%3)))
			for range 100 {
				useOnce(t, caller)
			}
		})
	}
	all.Wait()
	if s := f.audit(t); s.Held != 0 || s.Queued != 0 || s.Free != 4 {
		t.Fatalf("left behind: %+v", s)
	}
}

func useOnce(t *testing.T, b lease.Broker) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := begin(ctx, b, wish(time.Minute))
	if rand.IntN(4) == 0 {
		dawdle(30)
		cancel()
	}
	got := <-waiter
	if got.err != nil {
		if !errors.Is(got.err, context.Canceled) {
			t.Error(got.err)
		}
		return
	}
	if _, err := b.Renew(t.Context(), got.token); err != nil {
		t.Error(err)
	}
	if err := b.Release(t.Context(), got.token); err != nil {
		t.Error(err)
	}
}
