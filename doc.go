// Package berth leases scarce things (GPU render slots, licence seats, test
// devices, semaphore permits) so that every slot comes back on every path, and
// none is handed on before the old work has stopped.
//
// This package holds only the map. Three things live in the module, each
// useful without the others:
//
//   - a broker: package broker inside a Go program, over the decisions of
//     lease/machine and the records of store;
//   - a tool: cmd/berth;
//   - a library for the same discipline on any resource: package guard, and
//     hold for leases that must be renewed.
//
// # Invariants
//
// Code and tests cite these by number; ARCHITECTURE.md says them in full.
//
//	I1 exclusion             units held and quarantined never exceed a slot's capacity
//	I2 fences grow           one counter for the store, past every restart and restore
//	I3 durable before said   whatever is said about a change is said after it is in the store
//	I4 one request           has at most one lease, however often it is repeated
//	I5 one end               every lease ends once and is counted once
//	I6 nothing early         units go on after a proof or the handover past the promised end
//	I7 fair                  by rank; the first present waiter of a pool has its units set aside
//	I8 the holder first      a holder's trust ends before its lease can
//	I9 nothing behind        an acquire returns a token or an error, and leaves nothing after an error
//
// # Map
//
//	lease             words, records, codes and the Broker contract
//	lease/machine     the deterministic core
//	lease/attempt     the pure step of one acquire or release over a bad link
//	store             the contract and the in-memory store; store/pebble, store/record, store/storetest
//	broker            the running broker
//	hold              keeps leases renewed and gives them back
//	guard             release on every path, for any resource
//	policy            what each code means
//	render            jobs, renderers and the service that runs them in slots
//	internal/proc     commands as process groups
//	internal/pools    the pools file
//	internal/daemon   wiring
//	internal/cli      the commands of cmd/berth
//	internal/simulate the seeded world that checks the invariants
package berth
