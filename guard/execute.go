package guard

import "context"

// The codes of Execute's failures. The list only grows.
const (
	CodeAcquireCancelled     = "LEASE_ACQUIRE_CANCELLED"       // the caller's context ended before the body could run
	CodeAcquireThrown        = "LEASE_ACQUIRE_THROWN"          // Acquire panicked
	CodeBodyCancelled        = "LEASE_BODY_CANCELLED"          // the caller's context ended and the body or Commit gave its error
	CodeBodyThrown           = "LEASE_BODY_THROWN"             // the body or Commit panicked
	CodeCleanupTimeout       = "LEASE_CLEANUP_TIMEOUT"         // the release did not end within its time
	CodeCleanupThrown        = "LEASE_CLEANUP_THROWN"          // the release panicked
	CodeBodyAndCleanupFailed = "LEASE_BODY_AND_CLEANUP_FAILED" // both failed; holds an *Error with the two
)

// Codes returns every code a Failure can have.
func Codes() []string {
	return []string{
		CodeAcquireCancelled, CodeAcquireThrown, CodeBodyCancelled, CodeBodyThrown,
		CodeCleanupTimeout, CodeCleanupThrown, CodeBodyAndCleanupFailed,
	}
}

// Failure is an error with a code, made by Execute for what was no ordinary error.
type Failure struct {
	code string
	err  error
}

// Code returns one of Codes.
func (f *Failure) Code() string { return f.code }

// Error prints the code and what happened.
func (f *Failure) Error() string { return f.code + ": " + f.err.Error() }

// Unwrap returns what happened.
func (f *Failure) Unwrap() error { return f.err }

// Execute is Use with every failure as a value. Panics of Acquire, body, Commit and Release are
// contained and come back as a Failure with a *PanicError; cancellations and release timeouts
// come back as a Failure with their code. Ordinary errors of Acquire and body are returned as
// they are, those of Release in an *Error; when both work and release failed, the Failure's code
// is CodeBodyAndCleanupFailed. A Goexit still goes on after the release. The value is returned
// as by Use.
func Execute[T, R any](ctx context.Context, res Resource[T], body func(ctx context.Context, l *Lease[T]) (R, error)) (R, error) {
	r := use(ctx, &res, body, true)
	cancelled, thrown := CodeBodyCancelled, CodeBodyThrown
	if !r.entered {
		cancelled, thrown = CodeAcquireCancelled, CodeAcquireThrown
	}
	work := coded(r.work, cancelled, thrown)
	switch {
	case r.release.err == nil:
		return r.value, work
	case work == nil:
		alone := r.release
		alone.err = both(res.name(), nil, r.release.err)
		return r.value, coded(alone, CodeCleanupTimeout, CodeCleanupThrown)
	}
	release := coded(r.release, CodeCleanupTimeout, CodeCleanupThrown)
	return r.value, &Failure{CodeBodyAndCleanupFailed, both(res.name(), work, release)}
}

// coded gives the error at the end of a way the code for its kind, and leaves an ordinary error
// alone.
func coded(w way, cancelled, thrown string) error {
	switch {
	case w.err == nil:
		return nil
	case w.kind == Cancelled:
		return &Failure{cancelled, w.err}
	case w.kind == Panicked || w.kind == Exited:
		return &Failure{thrown, w.err}
	}
	return w.err
}
