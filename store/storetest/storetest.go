// Package storetest is the conformance suite for implementations of
// store.Store: the contract, and what must be left of it after a failure of
// the disk at any single step.
//
// It does not measure speed, and it cannot find a disk that lies about what it
// has synced.
package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/store"
)

// Device is where one store keeps its data. What is on it outlives the store.
type Device interface {
	// Open opens the store on the device, an empty one the first time. The
	// suite closes what it opens.
	Open() (store.Store, error)
}

// Faulty is a Device that can be made to fail.
type Faulty interface {
	Device
	// Fail arranges one fault. It happens at a later step of the store's.
	Fail(Fault)
	// Repair ends the fault, or takes it back if it has not happened, and
	// reports whether it had. After a power loss the device then holds what
	// survived. The suite has closed the store before.
	Repair() (happened bool)
}

// Fault is a failure of a device at one step.
type Fault struct {
	Kind FaultKind
	// Step is the number of the write (for ReadError: the read) at which it
	// happens; 1 is the next one. What a write is, is up to the device: the
	// smaller, the better.
	Step int
	// Kept is for PowerLoss: how many percent of what was written and not
	// synced survive.
	Kept int
	// Seed chooses which ones.
	Seed uint64
}

// FaultKind is the kind of a Fault.
type FaultKind int

// The kinds of faults.
const (
	// PowerLoss: the step and all later ones fail, and what was not synced may
	// be lost.
	PowerLoss FaultKind = iota
	// DiskFull: the step and all later ones that need space fail.
	DiskFull
	// WriteError: the step fails without having been done, later ones work.
	WriteError
	// ReadError: the read fails, later ones work.
	ReadError
)

// String is the kind's name.
func (k FaultKind) String() string {
	return [...]string{"PowerLoss", "DiskFull", "WriteError", "ReadError"}[k]
}

// Kit makes devices for the suite.
type Kit struct {
	// New makes an empty device for a store with these limits; 0 means the
	// store's own, which must take commits of 100 changes and 1 MiB.
	New func(t *testing.T, limits store.Limits) Device
	// NewFaulty makes an empty device that can fail. A kit without it gets the
	// contract only.
	NewFaulty func(t *testing.T) Faulty
}

// Run runs the whole suite.
func Run(t *testing.T, kit Kit) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.test(t, kit) })
	}
	if kit.NewFaulty == nil {
		return
	}
	for _, f := range faults {
		t.Run(fmt.Sprintf("Fault/%v/kept=%d/seed=%d", f.Kind, f.Kept, f.Seed), func(t *testing.T) {
			testFault(t, kit, f)
		})
	}
}

// open opens the store on dev and closes it at the end of the test.
func open(t *testing.T, dev Device) store.Store {
	t.Helper()
	st, err := dev.Open()
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { closeStore(t, st) })
	return st
}

func closeStore(t *testing.T, st store.Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// reopen closes st and opens the store on dev again.
func reopen(t *testing.T, dev Device, st store.Store) store.Store {
	t.Helper()
	closeStore(t, st)
	return open(t, dev)
}

func commit(t *testing.T, st store.Store, seq uint64, changes ...store.Change) {
	t.Helper()
	if err := st.Commit(t.Context(), seq, changes); err != nil {
		t.Fatalf("Commit(%d): %v", seq, err)
	}
}

func set(key, value string) store.Change {
	return store.Change{Key: []byte(key), Value: []byte(value)}
}

func del(key string) store.Change { return store.Change{Key: []byte(key)} }

// content is all pairs of a store.
type content map[string]string

// load reads all of st, and checks the order of the keys.
func load(t *testing.T, st store.Store) (content, uint64) {
	t.Helper()
	got, seq, err := tryLoad(t, st)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return got, seq
}

func tryLoad(t *testing.T, st store.Store) (content, uint64, error) {
	t.Helper()
	got := content{}
	var last []byte
	seq, err := st.Load(t.Context(), func(key, value []byte) error {
		if len(got) > 0 && bytes.Compare(key, last) <= 0 {
			t.Errorf("Load visited %q after %q", key, last)
		}
		last = bytes.Clone(key)
		got[string(key)] = string(value)
		return nil
	})
	return got, seq, err
}

// wantContent checks everything st holds.
func wantContent(t *testing.T, st store.Store, want content, wantSeq uint64) {
	t.Helper()
	got, seq := load(t, st)
	if seq != wantSeq {
		t.Errorf("Load returned commit %d, want %d", seq, wantSeq)
	}
	if d := difference(got, want); d != "" {
		t.Errorf("at commit %d: %s", seq, d)
	}
}

// difference names one key that differs, or is empty.
func difference(got, want content) string {
	for key, value := range want {
		if have, ok := got[key]; !ok {
			return fmt.Sprintf("key %q is missing", key)
		} else if have != value {
			return fmt.Sprintf("key %q has value %.40q (%d bytes), want %.40q (%d bytes)",
				key, have, len(have), value, len(value))
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			return fmt.Sprintf("key %q should not be there", key)
		}
	}
	return ""
}
