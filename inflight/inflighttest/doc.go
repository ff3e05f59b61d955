// Package inflighttest helps to test code that uses package inflight.
//
// What it does not do: it sees only the sets, buffers and sources that it made or was given,
// and a write to a released buffer is noticed when the memory is used again or the test ends,
// not when it happens.
//
// [Source] completes operations by a script, and the test decides when. [NewPool] is a pool
// that finds out who writes to a buffer after it came back, or never gives one back. [Watch]
// reports the operations that a test leaves open, with where they were started, and ends them,
// also when the test failed.
package inflighttest
