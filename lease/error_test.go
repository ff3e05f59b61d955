package lease_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/berth-dev/berth/lease"
)

func TestErrorsHaveCodes(t *testing.T) {
	lost := lease.Errorf(lease.CodeLeaseLost, "lease %s is lost", "x")
	for _, c := range []struct {
		what string
		err  error
		want lease.Code
	}{
		{"nil", nil, ""},
		{"an error", lost, lease.CodeLeaseLost},
		{"wrapped", fmt.Errorf("x: %w", lost), lease.CodeLeaseLost},
		{"joined", errors.Join(io.EOF, lost), lease.CodeLeaseLost},
		{"the outer one", lease.Errorf(lease.CodeUnavailable, "x: %w", lost), lease.CodeUnavailable},
		{"a code alone", lease.CodeAbsent.Err(), lease.CodeAbsent},
		{"none", io.EOF, lease.CodeInternal},
		{"a cancellation", context.Canceled, lease.CodeInternal},
		{"another package's", foreign("LEASE_BODY_THROWN"), "LEASE_BODY_THROWN"},
	} {
		if got := lease.CodeOf(c.err); got != c.want {
			t.Errorf("%s: CodeOf(%v) = %q, want %q", c.what, c.err, got, c.want)
		}
	}
	if lost.Error() != "lease x is lost" || lost.Code() != "lease_lost" {
		t.Errorf("%q, %q", lost.Error(), lost.Code())
	}
	if text := lease.CodeAbsent.Err().Error(); text != "absent" {
		t.Errorf("a code alone says %q", text)
	}
}

type foreign string

func (f foreign) Error() string { return "x" }
func (f foreign) Code() string  { return string(f) }

func TestErrorsAreMatchedByCode(t *testing.T) {
	lost := lease.Errorf(lease.CodeLeaseLost, "lost")
	outer := lease.Errorf(lease.CodeUnavailable, "outer: %w", lost)
	for _, c := range []struct {
		err, target error
		want        bool
	}{
		{lost, lease.CodeLeaseLost.Err(), true},
		{lost, lease.CodeAbsent.Err(), false},
		{fmt.Errorf("x: %w", lost), lease.CodeLeaseLost.Err(), true},
		{outer, lease.CodeLeaseLost.Err(), true},
		{outer, lease.CodeUnavailable.Err(), true},
		{lost, lost, true},
		{lost, lease.Errorf(lease.CodeLeaseLost, "lost"), false},
		{lease.CodeLeaseLost.Err(), lost, false},
		{lost, io.EOF, false},
	} {
		if got := errors.Is(c.err, c.target); got != c.want {
			t.Errorf("errors.Is(%v, %#v) = %v", c.err, c.target, got)
		}
	}
}

// An error that wraps two keeps both.
func TestErrorfWraps(t *testing.T) {
	one := lease.Errorf(lease.CodeUnavailable, "x: %w", io.EOF)
	two := lease.Errorf(lease.CodeUnavailable, "x: %w, %w", io.EOF, context.Canceled)
	none := lease.Errorf(lease.CodeUnavailable, "x: %v", io.EOF)
	if !errors.Is(one, io.EOF) || !errors.Is(two, io.EOF) || !errors.Is(two, context.Canceled) || errors.Is(none, io.EOF) {
		t.Errorf("one %v, two %v and %v, none %v", errors.Is(one, io.EOF), errors.Is(two, io.EOF), errors.Is(two, context.Canceled), errors.Is(none, io.EOF))
	}
	if errors.Unwrap(one) != io.EOF || errors.Unwrap(none) != nil {
		t.Errorf("unwrapped: %v, %v", errors.Unwrap(one), errors.Unwrap(none))
	}
}
