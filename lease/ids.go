package lease

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// A RequestID names one wish of one caller, made by the client before it asks.
// Whoever knows it can cancel the request, so it is a secret: it prints, and
// is marshalled, as its [Ref]; what must carry the id itself takes string(id).
// Our clients make it of 128 random bits ([NewRequestID]).
//
// An unexported field of a struct is printed, and a key of a map marshalled,
// without asking its type: do neither.
type RequestID string

// A LeaseID names one lease, made by the broker of 128 random bits. Whoever
// knows it can release the lease, so it is a secret like a [RequestID], and
// prints in the same way.
type LeaseID string

// A Ref is the first 12 hex digits of an id's SHA-256: the name that people,
// events and logs use. Knowing a ref gives no right.
type Ref string

// A Fence grows with every lease of a store. A sink that remembers the
// highest fence it has seen can refuse an older holder, on slots that a lease
// holds whole. On shared units holders overlap and fences only identify.
type Fence uint64

// A Caller is who asks, as the transport knows it. Request ids are scoped to
// it: the same id from two callers is two requests.
type Caller string

// Local is the caller where no transport tells one from another.
const Local Caller = "local"

// NewRequestID returns a fresh secret id of 128 random bits.
func NewRequestID() RequestID { return RequestID(random()) }

// NewLeaseID returns a fresh secret id of 128 random bits.
func NewLeaseID() LeaseID { return LeaseID(random()) }

func random() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Ref returns the name by which people know the request.
func (id RequestID) Ref() Ref { return ref(string(id)) }

// String returns the ref.
func (id RequestID) String() string { return string(id.Ref()) }

// Format prints the ref, so that no verb shows the id.
func (id RequestID) Format(f fmt.State, verb rune) { format(f, verb, id.Ref()) }

// MarshalText returns the ref, so that no log in JSON shows the id.
func (id RequestID) MarshalText() ([]byte, error) { return []byte(id.Ref()), nil }

// Ref returns the name by which people know the lease.
func (id LeaseID) Ref() Ref { return ref(string(id)) }

// String returns the ref.
func (id LeaseID) String() string { return string(id.Ref()) }

// Format prints the ref, so that no verb shows the id.
func (id LeaseID) Format(f fmt.State, verb rune) { format(f, verb, id.Ref()) }

// MarshalText returns the ref, so that no log in JSON shows the id.
func (id LeaseID) MarshalText() ([]byte, error) { return []byte(id.Ref()), nil }

func format(f fmt.State, verb rune, r Ref) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), string(r))
}

func ref(id string) Ref {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return Ref(hex.EncodeToString(sum[:6]))
}

// MaxName is the longest name of a pool, slot, label or request id.
const MaxName = 128

// ValidName reports whether s matches ^[A-Za-z0-9_.:-]{1,128}$.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return c == '_' || c == '.' || c == ':' || c == '-'
}
