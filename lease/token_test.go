package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/lease"
)

func granted() lease.Token {
	return lease.Token{RequestID: secretRequest, LeaseID: secretLease, Fence: 1, TTL: time.Second, Slots: []lease.GrantedSlot{{Pool: "p", ID: "s", Units: 1}}}
}

// No broker may hand these out; each bound from both sides.
func TestTokenCheck(t *testing.T) {
	good := granted()
	if err := good.Check(secretRequest); err != nil {
		t.Errorf("a good token: %v", err)
	}
	for name, spoil := range map[string]func(k *lease.Token){
		"another request":  func(k *lease.Token) { k.RequestID = "other" },
		"no lease id":      func(k *lease.Token) { k.LeaseID = "" },
		"no fence":         func(k *lease.Token) { k.Fence = 0 },
		"no slot (BR-044)": func(k *lease.Token) { k.Slots = nil },
		"a short ttl":      func(k *lease.Token) { k.TTL = time.Second - 1 },
		"nothing left":     func(k *lease.Token) { k.Left = -1 },
		"elapsed backward": func(k *lease.Token) { k.Elapsed = -1 },
	} {
		k := granted()
		spoil(&k)
		err := k.Check(secretRequest)
		if lease.CodeOf(err) != lease.CodeReplyInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), secretRequest) || strings.Contains(err.Error(), secretLease)) {
			t.Errorf("%s: the error shows an id: %v", name, err)
		}
	}
}

// The shortest time after which a slot may go on is the one to plan with.
func TestTokenHandover(t *testing.T) {
	after := func(d time.Duration) lease.GrantedSlot { return lease.GrantedSlot{Handover: lease.Handover{After: d}} }
	proof := lease.GrantedSlot{Handover: lease.Handover{Proofs: lease.ProofTree, Max: 1}}
	for _, c := range []struct {
		what  string
		slots []lease.GrantedSlot
		want  time.Duration
		ok    bool
	}{
		{"none", nil, 0, false},
		{"only proofs", []lease.GrantedSlot{proof, proof}, 0, false},
		{"the shortest", []lease.GrantedSlot{after(9), after(5), proof, after(7)}, 5, true},
		{"at once", []lease.GrantedSlot{after(9), after(lease.AtOnce)}, 0, true},
		{"a proof first", []lease.GrantedSlot{proof, after(3)}, 3, true},
	} {
		if got, ok := (lease.Token{Slots: c.slots}).Handover(); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", c.what, got, ok, c.want, c.ok)
		}
	}
}
