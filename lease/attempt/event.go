package attempt

import (
	"time"

	"github.com/berth-dev/berth/lease"
)

// An EventKind says what happened to an attempt.
type EventKind uint8

// The kinds of events. A call that failed or was cut off is a reply with an
// error that has no code.
const (
	Tick        EventKind = iota // time has passed; the first one starts the attempt
	Reply                        // an acquire or a give-back was answered with Token or Err
	CancelReply                  // a cancel was answered with Err, nil where it was done
	Stop                         // the caller does not want it any more, because of Err
)

// An Event is what a shell tells an attempt.
type Event struct {
	Kind EventKind
	// At is now.
	At Instant
	// Try is, for replies, the [Action.Try] that is answered.
	Try   int
	Token lease.Token
	Err   error
	// Jitter spreads repeats; a random number from 0 up to 1.
	Jitter float64
}

// tick returns the event without what happened: that time is as it is.
func (e Event) tick() Event { return Event{At: e.At, Jitter: e.Jitter} }

// A Do says what a shell has to do.
type Do uint8

// What a shell can be told. A send replaces an earlier call that is not
// answered yet: the shell may cut that one off.
const (
	Wait         Do = iota // for a reply, a stop, or Until
	SendAcquire            // send the request
	SendCancel             // send a cancel by the request's id, as of a token never handed out ("unused")
	SendGiveBack           // send the release or abandon
	Done                   // the attempt has ended with Token or Err
)

// An Action is what an attempt tells its shell.
type Action struct {
	Do Do
	// Try numbers the sends from 1.
	Try int
	// Until is when the attempt wants a Tick at the latest, on the monotonic
	// clock; not set with Done.
	Until time.Duration
	// Token is the result of an acquire where Err is nil.
	Token lease.Token
	Err   error
}
