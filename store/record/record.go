package record

import (
	"bytes"

	"github.com/berth-dev/berth/lease"
)

// AppendValue appends the value of a record, a pointer to a lease.Ledger,
// Start, Pool, Slot, Session, Host or Entry, in the newest version of its
// kind. Anything else is an error with the code internal.
//
// It keeps nothing of the record. With room in dst it allocates only for maps
// of more than 16 pairs.
func AppendValue(dst []byte, record any) ([]byte, error) {
	k := kindOf(record)
	if k == 0 {
		return dst, notARecord(record)
	}
	c := coder{b: dst}
	c.write(record, kinds[k].version)
	return c.b, nil
}

// A Decoder reads records back. It shares equal names and terms among all the
// records it has made and keeps them as long as it lives: use one for a load,
// then drop it. The zero value is ready; one goroutine at a time may use it.
type Decoder struct {
	names map[string]string
	terms map[lease.Terms]*lease.Terms
	// digits and again are room for an id and for a value written again.
	digits, again []byte
}

// Decode returns a new record, a pointer to a lease.Ledger, Start, Pool, Slot,
// Session, Host or Entry, that shares nothing with key and value. Empty maps
// and lists come back as nil.
//
// A key or value that [AppendKey] or [AppendValue] would not have written is
// an error with the code store_corrupt, one of a later version store_newer;
// both name the record. It never panics, and makes room for nothing that the
// bytes left in the value could not hold.
func (d *Decoder) Decode(key, value []byte) (any, error) {
	record, k, err := d.parseKey(key)
	if err != nil {
		return nil, err
	}
	if len(value) == 0 {
		return nil, unreadable(key, "the value is empty")
	}
	version, newest := value[0], kinds[k].version
	if version > newest {
		return nil, lease.Errorf(lease.CodeStoreNewer, "cannot read the store's record %s: a newer berth wrote it, in version %d where this one knows %d; start that version, or restore a backup taken before it", nameOf(key), version, newest)
	}
	if why := d.read(record, version, value); why != "" {
		return nil, unreadable(key, why)
	}
	return record, nil
}

// read fills the record and returns what is wrong with the value, if anything.
func (d *Decoder) read(record any, version byte, value []byte) (why string) {
	if version == 0 {
		return "it has version 0, which was never written"
	}
	c := coder{b: value[1:], version: version, from: d}
	c.fields(record)
	switch {
	case c.fault != "":
		return c.fault
	case len(c.b) > 0:
		return "it is followed by bytes that do not belong to it"
	}
	// What reads well may still not be what was written: a number with idle
	// bytes, a map out of order. Writing it again finds them all.
	c = coder{b: d.again[:0]}
	c.write(record, version)
	d.again = c.b
	if !bytes.Equal(d.again, value) {
		return "its bytes are not as they were written"
	}
	return ""
}

func (d *Decoder) intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if d.names == nil {
		d.names = map[string]string{}
	}
	s := string(b)
	d.names[s] = s
	return s
}

func (d *Decoder) share(t lease.Terms) *lease.Terms {
	if p, ok := d.terms[t]; ok {
		return p
	}
	if d.terms == nil {
		d.terms = map[lease.Terms]*lease.Terms{}
	}
	p := new(t)
	d.terms[t] = p
	return p
}
