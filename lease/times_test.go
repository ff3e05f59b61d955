package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

// BR-024: each time of a request comes out of the check as it went in, to the
// nanosecond, or is refused with its code. 0 is the one value that means
// something else than itself, and stays 0.
func TestBR024_RequestTimes(t *testing.T) {
	const ttl, bad = lease.CodeTTLOutOfRange, lease.CodeRequestInvalid
	for _, c := range []struct {
		d                  time.Duration
		ttl, maxHold, wait lease.Code
	}{
		{0, "", "", ""},
		{1, ttl, bad, ""},
		{time.Millisecond, ttl, bad, ""},
		{500 * time.Millisecond, ttl, bad, ""},
		{time.Second, "", "", ""},
		{1500 * time.Millisecond, "", "", ""},
		{lease.MaxWait, "", "", ""},
		{lease.LongestHold, "", "", bad},
		{math.MaxInt64, "", bad, bad}, // a ttl is bounded by its pools
		{-1, ttl, bad, bad},
		{-time.Hour, ttl, bad, bad},
		{math.MinInt64, ttl, bad, bad},
	} {
		for name, f := range map[string]struct {
			at   func(r *lease.Request) *time.Duration
			code lease.Code
		}{
			"ttl":      {func(r *lease.Request) *time.Duration { return &r.TTL }, c.ttl},
			"max_hold": {func(r *lease.Request) *time.Duration { return &r.MaxHold }, c.maxHold},
			"wait":     {func(r *lease.Request) *time.Duration { return &r.Wait }, c.wait},
		} {
			r := wish()
			*f.at(&r) = c.d
			got, err := r.Checked()
			if lease.CodeOf(err) != f.code {
				t.Errorf("%s %v: %v (%s), want the code %q", name, c.d, err, lease.CodeOf(err), f.code)
			}
			if err == nil && *f.at(&got) != c.d {
				t.Errorf("%s %v became %v", name, c.d, *f.at(&got))
			}
		}
	}
}

// The same of a pool's settings, where 0 takes the default.
func TestBR024_PoolTimes(t *testing.T) {
	fields := map[string]func(s *lease.Settings) *time.Duration{
		"ttl":         func(s *lease.Settings) *time.Duration { return &s.TTL },
		"max_ttl":     func(s *lease.Settings) *time.Duration { return &s.MaxTTL },
		"max_hold":    func(s *lease.Settings) *time.Duration { return &s.MaxHold },
		"stall.after": func(s *lease.Settings) *time.Duration { return &s.StallAfter },
		"after":       func(s *lease.Settings) *time.Duration { return &s.Handover.After },
	}
	defaults := map[string]time.Duration{"ttl": lease.DefaultTTL, "max_ttl": lease.DefaultMaxTTL, "after": lease.DefaultAfter}
	for name, at := range fields {
		for _, d := range []time.Duration{0, time.Second, 1500 * time.Millisecond, time.Hour} {
			var s lease.Settings
			*at(&s) = d
			want := d
			if d == 0 {
				want = defaults[name]
			}
			if got, err := s.Checked(); err != nil || *at(&got) != want {
				t.Errorf("%s %v: %v, %v; want %v", name, d, *at(&got), err, want)
			}
		}
		for _, d := range []time.Duration{math.MinInt64, -time.Second, -2, math.MaxInt64} {
			var s lease.Settings
			*at(&s) = d
			if _, err := s.Checked(); lease.CodeOf(err) != lease.CodePoolsInvalid {
				t.Errorf("%s %v: %v", name, d, err)
			}
		}
	}
}
