// Package machine is the deterministic core of a berth broker: a state, a
// moment of broker time and a command go in, a new state and a list of
// effects come out.
//
// Nothing here is durable by itself: an effect's answers may be given only
// after its changes are in the store (invariant I3), and that is the caller's
// part. There is no goroutine, clock, randomness, logger or I/O inside: ids
// and random bits come in with the command. A Machine belongs to one
// goroutine.
//
// Each command is a type in the file of its concern; [Machine.Step] runs one.
// What a command cannot finish within about 64 changes is left as work, told
// by [Effects.More], and goes on in later steps; any other command may come
// in between.
package machine
