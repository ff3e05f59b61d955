// Package hold keeps leases for a Go program: it renews them while their work
// runs, says when one is lost, and gives every one back.
//
// It does not stop work. A lease that is lost ends the context of its work
// before the lease itself can end; work that does not watch its context runs
// on, and after a sleep of the machine it may do so beside another holder's:
// a sink that compares fences is the only guard against that. Nothing is
// released when the process is killed: the lease then ends by itself.
//
// A [Keeper] holds leases of any [lease.Broker]. [Keeper.With] runs a function
// under a lease and releases it on every way out; [Keeper.Acquire] is for a
// hold that is no block of code. [Keeper.Close] waits for what is still held
// or on its way back, and names what it could not give back.
//
// What happens before what: the grant before the work, the work before the
// release, the release before the return of With or [Lease.Release], unless it
// did not get through within its limit. Renewals go on until then. The
// context's end happens before the lease is lost to anybody else as long as
// the machine does not sleep.
package hold
