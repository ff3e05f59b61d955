package simulate

import (
	"container/heap"
	"time"
)

// An agenda holds what is to happen, in order of time and then of entry.
type agenda struct {
	items []event
	count uint64
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

func (a *agenda) Len() int { return len(a.items) }

func (a *agenda) Less(i, j int) bool {
	x, y := &a.items[i], &a.items[j]
	return x.at < y.at || x.at == y.at && x.order < y.order
}

func (a *agenda) Swap(i, j int) { a.items[i], a.items[j] = a.items[j], a.items[i] }

// Push and Pop are for container/heap.
func (a *agenda) Push(x any) { a.items = append(a.items, x.(event)) }

func (a *agenda) Pop() any {
	last := len(a.items) - 1
	e := a.items[last]
	a.items[last] = event{}
	a.items = a.items[:last]
	return e
}

func (a *agenda) add(at time.Duration, do func()) {
	a.count++
	heap.Push(a, event{at: at, order: a.count, do: do})
}

func (a *agenda) next() event { return heap.Pop(a).(event) }
