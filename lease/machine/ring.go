package machine

// A ring is a queue of entries in the order in which they were put in.
type ring struct {
	items []*entry
	head  int
}

func (r *ring) len() int { return len(r.items) - r.head }

func (r *ring) first() *entry { return r.items[r.head] }

func (r *ring) push(e *entry) { r.items = append(r.items, e) }

func (r *ring) pop() {
	r.items[r.head] = nil
	r.head++
	if r.head > 1024 && r.head*2 > len(r.items) {
		n := copy(r.items, r.items[r.head:])
		clear(r.items[n:])
		r.items, r.head = r.items[:n], 0
	}
}
