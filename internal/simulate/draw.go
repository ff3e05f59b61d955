package simulate

import (
	"math/rand/v2"
	"time"
)

// mix spreads numbers over all bits, so that each gives draws of its own.
func mix(numbers ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, n := range numbers {
		h ^= n
		h ^= h >> 30
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 27
		h *= 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// Streams of draws: each has its own numbers, so that leaving one decision
// out leaves all others as they are.
const (
	streamOp uint64 = iota + 1
	streamWorld
	streamPacket
	streamDisk
	streamJitter
	streamFinal
	streamNotice
)

// A dice draws from one stream.
type dice struct{ *rand.Rand }

func newDice(numbers ...uint64) dice {
	h := mix(numbers...)
	return dice{rand.New(rand.NewPCG(h, h^0x5851f42d4c957f2d))}
}

// in reports true in p of all cases.
func (d dice) in(p float64) bool { return d.Float64() < p }

// between returns a time from lo up to hi.
func (d dice) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(d.Int64N(int64(hi-lo)))
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }
