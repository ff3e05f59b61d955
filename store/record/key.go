package record

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/berth-dev/berth/lease"
)

// A kind is the first byte of a key. The order is that of a load.
type kind byte

const (
	kindLedger kind = iota + 1
	kindStart
	kindPool
	kindSlot
	kindSession
	kindHost
	kindEntry
)

// kinds says what each kind is called and in which version it is written.
var kinds = [...]struct {
	name    string
	version byte
}{
	kindLedger:  {"ledger", 1},
	kindStart:   {"start", 1},
	kindPool:    {"pool", 1},
	kindSlot:    {"slot", 1},
	kindSession: {"session", 1},
	kindHost:    {"host", 1},
	kindEntry:   {"entry", 1},
}

func (k kind) known() bool { return k != 0 && int(k) < len(kinds) }

func kindOf(record any) kind {
	switch record.(type) {
	case *lease.Ledger:
		return kindLedger
	case *lease.Start:
		return kindStart
	case *lease.Pool:
		return kindPool
	case *lease.Slot:
		return kindSlot
	case *lease.Session:
		return kindSession
	case *lease.Host:
		return kindHost
	case *lease.Entry:
		return kindEntry
	}
	return 0
}

// AppendKey appends the key of a record, a pointer to a lease.Ledger, Start,
// Pool, Slot, Session, Host or Entry, of which it reads only what the record
// is known by. Anything else is an error with the code internal.
func AppendKey(dst []byte, record any) ([]byte, error) {
	k := kindOf(record)
	dst = append(dst, byte(k))
	switch r := record.(type) {
	case *lease.Ledger:
		return dst, nil
	case *lease.Start:
		return binary.BigEndian.AppendUint64(dst, r.Number), nil
	case *lease.Pool:
		return append(dst, r.Name...), nil
	case *lease.Slot:
		return appendPair(dst, r.Pool, r.ID), nil
	case *lease.Session:
		return appendPair(dst, string(r.Caller), r.ID), nil
	case *lease.Host:
		return append(dst, r.Machine...), nil
	case *lease.Entry:
		return binary.BigEndian.AppendUint64(dst, r.Number), nil
	}
	return dst[:len(dst)-1], notARecord(record)
}

func notARecord(record any) error {
	return lease.Errorf(lease.CodeInternal, "cannot encode a %T: it is no record of the store; report this as a fault of berth", record)
}

func appendPair(dst []byte, a, b string) []byte {
	return append(append(append(dst, a...), 0), b...)
}

// parseKey returns an empty record with what the key says of it.
func (d *Decoder) parseKey(key []byte) (any, kind, error) {
	if len(key) == 0 {
		return nil, 0, unreadable(key, "the key is empty")
	}
	k, rest := kind(key[0]), key[1:]
	if k != 0 && !k.known() {
		return nil, k, lease.Errorf(lease.CodeStoreNewer, "cannot read the store: a newer berth wrote records of kind %d into it, which this one does not know; start that version, or restore a backup taken before it", k)
	}
	if record := d.known(k, rest); record != nil {
		return record, k, nil
	}
	return nil, k, unreadable(key, "the key has the wrong form")
}

// known returns a record with what it is known by, or nil.
func (d *Decoder) known(k kind, rest []byte) any {
	switch {
	case k == kindLedger && len(rest) == 0:
		return &lease.Ledger{}
	case k == kindStart && len(rest) == 8:
		return &lease.Start{Number: binary.BigEndian.Uint64(rest)}
	case k == kindPool:
		return &lease.Pool{Name: d.intern(rest)}
	case k == kindHost:
		return &lease.Host{Machine: d.intern(rest)}
	case k == kindEntry && len(rest) == 8:
		return &lease.Entry{Number: binary.BigEndian.Uint64(rest)}
	}
	return d.knownPair(k, rest)
}

// knownPair splits at the last 0: an id never has one, a caller may.
func (d *Decoder) knownPair(k kind, rest []byte) any {
	i := bytes.LastIndexByte(rest, 0)
	switch {
	case i < 0:
		return nil
	case k == kindSlot:
		return &lease.Slot{Pool: d.intern(rest[:i]), ID: d.intern(rest[i+1:])}
	case k == kindSession:
		return &lease.Session{Caller: lease.Caller(d.intern(rest[:i])), ID: string(rest[i+1:])}
	}
	return nil
}

// nameOf says which record a key names, for people: never with an id in it.
func nameOf(key []byte) string {
	if len(key) == 0 || !kind(key[0]).known() {
		return fmt.Sprintf("with the key %.16x", key)
	}
	k, rest := kind(key[0]), key[1:]
	name := kinds[k].name
	switch {
	case k == kindSession:
		// A session's id is a secret: it goes by its ref.
		id := rest[bytes.LastIndexByte(rest, 0)+1:]
		return fmt.Sprintf("%s %s", name, lease.RequestID(id).Ref())
	case k == kindSlot:
		return fmt.Sprintf("%s %q", name, bytes.ReplaceAll(rest, []byte{0}, []byte{'/'}))
	case (k == kindStart || k == kindEntry) && len(rest) == 8:
		return fmt.Sprintf("%s %d", name, binary.BigEndian.Uint64(rest))
	case k == kindPool || k == kindHost:
		return fmt.Sprintf("%s %q", name, rest)
	}
	return name
}

func unreadable(key []byte, why string) error {
	return lease.Errorf(lease.CodeStoreCorrupt, "cannot read the store's record %s: %s; restore a backup", nameOf(key), why)
}
