package guard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// DefaultTimeout is how long the context of a release lives when Resource.Timeout is zero.
const DefaultTimeout = 10 * time.Second

// Resource says how one kind of thing is acquired and given back. Its functions are called
// without any lock held. A Resource may be used by any number of goroutines at once when its
// functions may. It is copied; changing it later changes no lease.
type Resource[T any] struct {
	// Name stands in errors and events. Empty means "resource".
	Name string

	// Acquire gets the thing. With a nil error the guard owns what it returned; with an error
	// the guard owns nothing and releases nothing. An error that wraps ErrUncertain says that
	// the thing may have been given out all the same; see Reclaim. Required.
	Acquire func(ctx context.Context) (T, error)

	// Commit makes the work count: it runs once, after a body that returned nil, on the
	// caller's own context, before Release. When it fails, the work has failed. Optional.
	Commit func(ctx context.Context, v T) error

	// Release gives the thing back, told how the work ended. It is called once for each
	// successful Acquire. Its context carries the caller's values and ends after Timeout. A
	// panic in it is a failed release (*PanicError): it must not hide how the body ended. It
	// must not call Close on its own lease, which would wait for itself. Required.
	Release func(ctx context.Context, v T, o Outcome) error

	// Reclaim is called once, with the error, when Acquire failed with an outcome nobody
	// knows (ErrUncertain, returned or panicked with). Its context is like that of Release.
	// What it returns is kept beside the acquire's error and never replaces it. Optional.
	Reclaim func(ctx context.Context, cause error) error

	// Timeout is how long the context of Release or Reclaim lives. Zero means DefaultTimeout;
	// negative is refused.
	Timeout time.Duration

	// Grace, when positive, sets a hard limit of Timeout + Grace for a release that ignores
	// its context: whoever waits for it is then let go with ErrReleaseTimeout, while the
	// release goes on in its own goroutine and Lease.Done stays open until it returns; who
	// sets Grace waits for Done before ending what Release uses. What it returns in the end is
	// told to Observe alone, and of a Reclaim, which has no Lease, its end too. Zero means that Release runs
	// on the closer's goroutine and is waited for however long it takes.
	Grace time.Duration

	// Observe hears what happened, for counts and durations. It is called on the goroutine
	// where it happened, so by several at once, and must not block or panic. Optional.
	Observe func(Event)
}

func (r *Resource[T]) check() error {
	switch {
	case r.Acquire == nil:
		return r.refuse("Acquire is nil")
	case r.Release == nil:
		return r.refuse("Release is nil")
	case r.Timeout < 0:
		return r.refuse(fmt.Sprintf("Timeout %v is negative: use zero for the default of %v", r.Timeout, DefaultTimeout))
	case r.Grace < 0:
		return r.refuse(fmt.Sprintf("Grace %v is negative: use zero for no hard limit", r.Grace))
	case r.Timeout > math.MaxInt64-r.Grace:
		return r.refuse("Timeout + Grace is more than a duration can hold")
	}
	return nil
}

func (r *Resource[T]) refuse(why string) error {
	return errors.New("guard: " + r.name() + " not acquired: " + why)
}

func (r *Resource[T]) name() string {
	if r.Name == "" {
		return "resource"
	}
	return r.Name
}

func (r *Resource[T]) timeout() time.Duration {
	if r.Timeout == 0 {
		return DefaultTimeout
	}
	return r.Timeout
}
