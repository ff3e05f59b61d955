package hold

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/berth-dev/berth/lease"
)

// A Config says how a [Keeper] holds leases. All but Broker may be left zero.
type Config struct {
	// Broker hands out the leases. The Keeper never closes it; it has to
	// outlive the Keeper.
	Broker lease.Broker
	// Clock tells the time; nil means the machine's.
	Clock Clock
	// Margin is how long before a lease can end the trust in it does; 0 means
	// a fifth of the lease's TTL. What stops the work has to fit in it,
	// together with the slots' handover.
	Margin time.Duration
	// RenewEvery is the time between renewals; 0 means a third of the TTL.
	// Whatever it says, a lease is renewed while there is time for a repeat.
	RenewEvery time.Duration
	// ReleaseLimit is how long With and Release wait for the broker to answer
	// a release before it goes on in the background; 0 means 10 s.
	ReleaseLimit time.Duration
	// Logger hears what no caller is told: renewals that failed, leases lost
	// or never closed, releases in the background. nil means nobody does.
	Logger *slog.Logger
	// Observe hears of every step, for counts and durations. It is called
	// where the step happened and must not block, panic or call the Keeper.
	// nil means nobody does.
	Observe func(Event)
}

func (c Config) checked() (Config, error) {
	if c.Broker == nil {
		return c, errors.New("cannot make a keeper: Broker is nil; give the broker to hold leases of")
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Margin", c.Margin}, {"RenewEvery", c.RenewEvery}, {"ReleaseLimit", c.ReleaseLimit}} {
		if f.value < 0 {
			return c, fmt.Errorf("cannot make a keeper: %s is %v; give 0 for its default, or more", f.name, f.value)
		}
	}
	if c.Clock == nil {
		c.Clock = newSystemClock()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Event) {}
	}
	c.ReleaseLimit = orElse(c.ReleaseLimit, 10*time.Second)
	return c, nil
}

func orElse(v, def time.Duration) time.Duration {
	if v == 0 {
		return def
	}
	return v
}
