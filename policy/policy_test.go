package policy_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/berth-dev/berth/guard"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
)

// declared returns the values of all constants of type Code in lease.
func declared(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../lease/error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			codes = append(codes, codesIn(t, spec.(*ast.ValueSpec))...)
		}
	}
	return codes
}

func codesIn(t *testing.T, spec *ast.ValueSpec) (codes []string) {
	t.Helper()
	if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Code" {
		return nil
	}
	for _, v := range spec.Values {
		code, err := strconv.Unquote(v.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, code)
	}
	return codes
}

// Every code has a row, and every row a code.
func TestEveryCodeHasARow(t *testing.T) {
	codes := declared(t)
	if len(codes) < 50 {
		t.Fatalf("found only %d codes in package lease", len(codes))
	}
	codes = append(codes, guard.Codes()...)
	slices.Sort(codes)
	if got := policy.Codes(); !slices.Equal(got, codes) {
		for _, c := range codes {
			if !slices.Contains(got, c) {
				t.Errorf("code %s has no row", c)
			}
		}
		for _, c := range got {
			if !slices.Contains(codes, c) {
				t.Errorf("row %s is of no code", c)
			}
		}
	}
}

// What must hold in any table of codes.
func TestRowsAgreeWithThemselves(t *testing.T) {
	exits := policy.Exits()
	for _, code := range policy.Codes() {
		p, ok := policy.ForCode(code)
		switch {
		case !ok || p.Class == "" || p.Class == policy.OK || p.Status == policy.Success:
			t.Errorf("%s: incomplete: %+v", code, p)
		case !slices.Contains(exits, p.Exit):
			t.Errorf("%s: exit code %d is none of berth's own", code, p.Exit)
		case p.Retry != policy.Never && p.Ack == policy.Acked:
			t.Errorf("%s: is to be tried again and yet acknowledged", code)
		case p.Class == policy.Cancelled && (p.Retry != policy.Never || p.Exit != policy.ExitCancelled):
			t.Errorf("%s: a cancellation is never tried again: %+v", code, p)
		case p.Class == policy.Lost && p.Exit != policy.ExitLost:
			t.Errorf("%s: lost, with exit code %d", code, p.Exit)
		case p.Class == policy.Invalid && (p.Retry != policy.Never || p.Ack == policy.Nak):
			t.Errorf("%s: malformed asked again is malformed: %+v", code, p)
		case p.Class == policy.Internal && p.Ack == policy.Acked:
			t.Errorf("%s: a fault of berth must lose no message", code)
		}
	}
}

// BR044: having got no slot is told apart from every other end.
func TestBR044_NoCapacityHasItsOwnExit(t *testing.T) {
	for _, code := range policy.Codes() {
		if p, _ := policy.ForCode(code); (p.Exit == policy.ExitNoCapacity) != (p.Class == policy.NoCapacity) {
			t.Errorf("%s: class %s with exit code %d", code, p.Class, p.Exit)
		}
	}
}

// BR079: berth's own failures have reserved, documented codes.
func TestBR079_ExitCodesAreDocumented(t *testing.T) {
	texts := map[string]bool{}
	for i, e := range policy.Exits() {
		if int(e) != 120+i || e.String() == "" || texts[e.String()] {
			t.Errorf("exit code %d (%d in order): %q", e, i, e)
		}
		texts[e.String()] = true
	}
	if len(texts) != 8 {
		t.Errorf("%d exit codes from 120 to 127", len(texts))
	}
	for e, want := range map[policy.Exit]string{0: "success", 1: "the command's own code", 119: "the command's own code", 128: "the command's own code"} {
		if e.String() != want {
			t.Errorf("exit code %d means %q", e, e)
		}
	}
	for e, want := range map[policy.Exit]int{policy.ExitTimedOut: 124, policy.ExitBerth: 125, policy.ExitFailed: 126, policy.ExitMissing: 127} {
		if int(e) != want {
			t.Errorf("exit code %q is %d; shells and timeout(1) say %d", e, e, want)
		}
	}
}

func coded(code lease.Code, wraps error) error {
	if wraps == nil {
		return lease.Errorf(code, "x")
	}
	return lease.Errorf(code, "x: %w", wraps)
}

// netCancelled is what a dial gives when its context is cancelled.
func netCancelled(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	return err
}

// failure returns what Execute makes of the two ways to end.
func failure(t *testing.T, body func(context.Context) error, release error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := guard.Execute(ctx, guard.Resource[int]{
		Acquire: func(context.Context) (int, error) { return 1, nil },
		Release: func(context.Context, int, guard.Outcome) error { return release },
	}, func(ctx context.Context, _ *guard.Lease[int]) (int, error) {
		if body == nil {
			return 0, nil
		}
		return 0, body(ctx)
	})
	if err == nil {
		t.Fatal("nothing failed")
	}
	return err
}

func TestOf(t *testing.T) {
	boom := errors.New("boom")
	lost, failed := coded(lease.CodeLeaseLost, nil), coded(lease.CodeRendererFailed, nil)
	panics := func(context.Context) error { panic(lost) }
	fails := func(context.Context) error { return failed }
	for _, c := range []struct {
		what  string
		err   error
		class policy.Class
		retry policy.Retry
	}{
		{"nothing", nil, policy.OK, policy.Never},
		{"unknown", boom, policy.Internal, policy.Never},
		{"a code", lost, policy.Lost, policy.NewID},
		{"a code in an error without one", fmt.Errorf("x: %w", lost), policy.Lost, policy.NewID},
		{"an unknown code", strange("new_code"), policy.Internal, policy.Never},
		{"a code in an unknown code", errors.Join(strange("new_code"), lost), policy.Lost, policy.NewID},
		{"the outer of two codes", coded(lease.CodeUnavailable, failed), policy.Unavailable, policy.SameID},

		{"cancelled", context.Canceled, policy.Cancelled, policy.Never},
		{"cancelled under a code", coded(lease.CodeOutcomeUnknown, context.Canceled), policy.Cancelled, policy.Never},
		{"cancelled deep under a code", coded(lease.CodeUnavailable, fmt.Errorf("x: %w", netCancelled(t))), policy.Cancelled, policy.Never},
		{"a cancelled code under a code", coded(lease.CodeRendererFailed, coded(lease.CodeCancelled, nil)), policy.Cancelled, policy.Never},
		{"the caller's deadline", context.DeadlineExceeded, policy.TimedOut, policy.Never},
		{"the caller's deadline under a code", coded(lease.CodeRendererFailed, context.DeadlineExceeded), policy.TimedOut, policy.Never},
		{"the request's wait", coded(lease.CodeTimedOut, nil), policy.TimedOut, policy.Later},
		{"the request's wait under a code", coded(lease.CodeRendererFailed, coded(lease.CodeTimedOut, nil)), policy.Failed, policy.Never},

		{"body and release", &guard.Error{Body: failed, Release: lost}, policy.Failed, policy.Never},
		{"body and a cancelled release", &guard.Error{Body: failed, Release: context.Canceled}, policy.Failed, policy.Never},
		{"a cancelled body and a lost release", &guard.Error{Body: context.Canceled, Release: lost}, policy.Cancelled, policy.Never},
		{"an unknown body and a lost release", &guard.Error{Body: boom, Release: lost}, policy.Lost, policy.NewID},
		{"a release alone", &guard.Error{Release: lost}, policy.Lost, policy.NewID},
		{"joined", errors.Join(nil, boom, failed, lost), policy.Failed, policy.Never},
		{"joined unknown", errors.Join(boom, boom), policy.Internal, policy.Never},

		{"Execute: panic", failure(t, panics, nil), policy.Failed, policy.Never},
		{"Execute: body and release", failure(t, fails, lost), policy.Failed, policy.Never},
		{"Execute: panic and release", failure(t, panics, lost), policy.Failed, policy.Never},
		{"Execute: unknown body and lost", failure(t, func(context.Context) error { return boom }, lost), policy.Lost, policy.NewID},
		{"Execute: unknown both", failure(t, func(context.Context) error { return boom }, boom), policy.Failed, policy.Never},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := policy.Of(c.err)
			if p.Class != c.class || p.Retry != c.retry {
				t.Errorf("%v is %s, %s; want %s, %s", c.err, p.Class, p.Retry, c.class, c.retry)
			}
		})
	}
}

// A release has a limit of its own: that this passed is no cancellation, and
// the work before it is done.
func TestAReleaseOutOfTimeIsNoCancellation(t *testing.T) {
	for _, code := range []string{guard.CodeCleanupTimeout, guard.CodeCleanupThrown} {
		p := policy.Of(&wrapped{code, context.DeadlineExceeded})
		if p.Class != policy.Release || p.Retry != policy.Never || p.Ack != policy.Acked {
			t.Errorf("%s is %+v", code, p)
		}
	}
	if p := policy.Of(&wrapped{guard.CodeBodyAndCleanupFailed, context.Canceled}); p.Class != policy.Cancelled {
		t.Errorf("a cancelled body with a failed release is %+v", p)
	}
}

type strange string

func (s strange) Error() string { return string(s) }
func (s strange) Code() string  { return string(s) }

type wrapped struct {
	code string
	err  error
}

func (w *wrapped) Error() string { return w.code }
func (w *wrapped) Code() string  { return w.code }
func (w *wrapped) Unwrap() error { return w.err }

func TestNilIsSuccess(t *testing.T) {
	if p := policy.Of(nil); p.Exit != 0 || p.Status != policy.Success || p.Ack != policy.Acked {
		t.Errorf("success is %+v", p)
	}
}

func TestRetriesHaveNames(t *testing.T) {
	names := map[string]bool{}
	for _, r := range []policy.Retry{policy.Never, policy.SameID, policy.NewID, policy.Later} {
		names[r.String()] = true
	}
	if len(names) != 4 {
		t.Errorf("the names are %v", slices.Sorted(maps.Keys(names)))
	}
}
