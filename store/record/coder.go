package record

import (
	"encoding/binary"
	"slices"
)

// A coder walks over a record's fields, each by a pointer to it: it appends
// them to b or, when it reads, takes them from the front of b. Only when it
// reads does it change a field. After a fault it reads nothing but zeros.
type coder struct {
	b       []byte
	version byte
	// from is set when the coder reads, and shares what it has read.
	from  *Decoder
	fault string
}

func (c *coder) reading() bool { return c.from != nil }

// write appends a record with its version in front.
func (c *coder) write(record any, version byte) {
	c.version = version
	c.b = append(c.b, version)
	c.fields(record)
}

func (c *coder) fail(why string) {
	if c.fault == "" {
		c.fault = why
	}
	c.b = nil
}

const (
	cutShort = "it is cut short"
	tooLarge = "a number in it is too large"
)

func (c *coder) uint(v *uint64) {
	if !c.reading() {
		c.putUint(*v)
		return
	}
	n, size := binary.Uvarint(c.b)
	switch {
	case size > 0:
		*v, c.b = n, c.b[size:]
	case size == 0:
		c.fail(cutShort)
	default:
		c.fail(tooLarge)
	}
}

// putUint does what [binary.AppendUvarint] does. As it appends to the field
// itself, it costs half as much here.
func (c *coder) putUint(v uint64) {
	for v >= 0x80 {
		c.b = append(c.b, byte(v)|0x80)
		v >>= 7
	}
	c.b = append(c.b, byte(v))
}

// int codes a number that may be negative; small ones of either sign are
// short.
func (c *coder) int(v *int64) {
	n := uint64(*v<<1) ^ uint64(*v>>63)
	c.uint(&n)
	if c.reading() {
		*v = int64(n>>1) ^ -int64(n&1)
	}
}

func (c *coder) smallInt(v *int) {
	n := int64(*v)
	c.int(&n)
	if !c.reading() {
		return
	}
	if *v = int(n); int64(*v) != n {
		c.fail(tooLarge)
	}
}

// byte codes a value of at most most.
func (c *coder) byte(v *uint8, most uint8) {
	if !c.reading() {
		c.b = append(c.b, *v)
		return
	}
	b := c.take(1)
	if b == nil {
		return
	}
	if b[0] > most {
		c.fail("a state in it is unknown")
		return
	}
	*v = b[0]
}

func (c *coder) bool(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.byte(&b, 1)
	if c.reading() {
		*v = b == 1
	}
}

// raw codes bytes of a fixed number.
func (c *coder) raw(v []byte) {
	if !c.reading() {
		c.b = append(c.b, v...)
		return
	}
	copy(v, c.take(len(v)))
}

// take returns the next n bytes, or nil after a fault.
func (c *coder) take(n int) []byte {
	if n > len(c.b) {
		c.fail(cutShort)
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// count codes a number of things of at least size bytes each. A count that
// was read is never more than the bytes left allow.
func (c *coder) count(n, size int) int {
	v := uint64(n)
	c.uint(&v)
	if !c.reading() {
		return n
	}
	if v > uint64(len(c.b)/size) {
		c.fail(cutShort)
		return 0
	}
	return int(v)
}

// text codes a string that hardly ever repeats.
func (c *coder) text(s *string) {
	n := c.count(len(*s), 1)
	if c.reading() {
		*s = string(c.take(n))
		return
	}
	c.b = append(c.b, *s...)
}

// name codes a string that many records have in common.
func (c *coder) name(s *string) {
	n := c.count(len(*s), 1)
	if c.reading() {
		*s = c.from.intern(c.take(n))
		return
	}
	c.b = append(c.b, *s...)
}

// machine codes the id of a machine or of its boot: an id in common.
func (c *coder) machine(s *string) {
	if c.reading() {
		*s = c.from.intern(c.readID())
		return
	}
	c.id(s)
}

// idLike codes an id that mostly equals another.
func (c *coder) idLike(s *string, other string) {
	same := *s == other
	c.bool(&same)
	switch {
	case !same:
		c.id(s)
	case c.reading():
		*s = other
	}
}

// id codes a string that mostly is an even number of lower-case hex digits:
// those are packed, two in a byte, and the length in front says so in its
// lowest bit.
func (c *coder) id(s *string) {
	if c.reading() {
		*s = string(c.readID())
		return
	}
	if !c.pack(*s) {
		c.putUint(uint64(len(*s)) << 1)
		c.b = append(c.b, *s...)
	}
}

// pack appends s if it is hex digits that come in pairs.
func (c *coder) pack(s string) bool {
	if len(s) == 0 || len(s)%2 != 0 {
		return false
	}
	start := len(c.b)
	c.putUint(uint64(len(s)/2)<<1 | 1)
	for i := 0; i+1 < len(s); i += 2 {
		high, low := nibbles[s[i]], nibbles[s[i+1]]
		if high|low == noDigit {
			c.b = c.b[:start]
			return false
		}
		c.b = append(c.b, high<<4|low)
	}
	return true
}

// readID returns bytes that are good until the next id is read.
func (c *coder) readID() []byte {
	var n uint64
	c.uint(&n)
	if n>>1 > uint64(len(c.b)) {
		c.fail(cutShort)
		return nil
	}
	b := c.take(int(n >> 1))
	if n&1 == 0 {
		return b
	}
	digits := c.from.digits[:0]
	for _, v := range b {
		digits = append(digits, hexDigits[v>>4], hexDigits[v&15])
	}
	c.from.digits = digits
	return digits
}

const hexDigits = "0123456789abcdef"

const noDigit = 255

// nibbles holds the value of each lower-case hex digit, and noDigit for all
// other bytes.
var nibbles = func() (t [256]byte) {
	for i := range t {
		t[i] = noDigit
	}
	for v, digit := range []byte(hexDigits) {
		t[digit] = byte(v)
	}
	return t
}()

// labels codes a map in the order of its keys.
func (c *coder) labels(m *map[string]string) {
	n := c.count(len(*m), 2)
	if !c.reading() {
		c.writeLabels(*m)
		return
	}
	for range n {
		var k, v string
		c.name(&k)
		c.name(&v)
		if c.fault != "" {
			return
		}
		if *m == nil {
			*m = make(map[string]string, n)
		}
		(*m)[k] = v
	}
}

func (c *coder) writeLabels(m map[string]string) {
	var room [16]string
	keys := room[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v := m[k]
		c.name(&k)
		c.name(&v)
	}
}

// makeOne codes whether a thing is there, and makes it when it is read.
func makeOne[T any](c *coder, p **T) bool {
	there := *p != nil
	c.bool(&there)
	if there && c.reading() {
		*p = new(T)
	}
	return there
}

// makeList codes the length of a list of things of at least size bytes each,
// and makes it when it is read. It returns the length.
func makeList[T any](c *coder, list *[]T, size int) int {
	n := c.count(len(*list), size)
	if n > 0 && c.reading() {
		*list = make([]T, n)
	}
	return n
}
