package api_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api"
	berthv1 "github.com/berth-dev/berth/api/berth/v1"
	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/policy"
)

// wired returns the message as the other side reads it.
func wired[M proto.Message](t interface{ Fatal(...any) }, m M) M {
	text, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	other := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(text, other); err != nil {
		t.Fatal(err)
	}
	return other
}

var (
	anyName  = rapid.StringMatching(`[A-Za-z0-9_.:-]{1,20}`)
	anyTime  = rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "ns")) / 2 })
	labelMap = rapid.MapOfN(anyName, rapid.String(), 1, 4)
)

func TestRequestsComeAcross(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := lease.Request{
			ID: lease.RequestID(anyName.Draw(t, "id")), TTL: anyTime.Draw(t, "ttl"), MaxHold: anyTime.Draw(t, "max hold"),
			Wait: anyTime.Draw(t, "wait"), Priority: rapid.IntRange(-100, 100).Draw(t, "priority"), Note: rapid.String().Draw(t, "note"),
			Holder: lease.Holder{
				Name: anyName.Draw(t, "name"), Machine: anyName.Draw(t, "machine"), Boot: anyName.Draw(t, "boot"),
				Process: lease.Process{PID: rapid.IntRange(0, 1<<22).Draw(t, "pid"), Start: rapid.Uint64().Draw(t, "start"), Namespace: rapid.Uint64().Draw(t, "ns")},
				Cgroup:  lease.Cgroup{Path: anyName.Draw(t, "path"), Inode: rapid.Uint64().Draw(t, "inode"), Namespace: rapid.Uint64().Draw(t, "ns")},
			},
		}
		for range rapid.IntRange(1, 3).Draw(t, "claims") {
			r.Claims = append(r.Claims, lease.Claim{
				Pool: anyName.Draw(t, "pool"), Count: rapid.IntRange(0, 40).Draw(t, "count"), Units: rapid.Int64().Draw(t, "units"), Select: labelMap.Draw(t, "select"),
			})
		}
		got, err := api.FromRequest(wired(t, api.Request(r)))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Fatalf("sent %+v, got %+v, %v", r, got, err)
		}
	})
	if got, err := api.FromRequest(wired(t, api.Request(lease.Request{}))); err != nil || !reflect.DeepEqual(got, lease.Request{}) {
		t.Errorf("an empty request came across as %+v, %v", got, err)
	}
}

func TestTokensComeAcross(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := lease.Token{
			RequestID: lease.RequestID(anyName.Draw(t, "request")), LeaseID: lease.LeaseID(anyName.Draw(t, "lease")),
			Fence: lease.Fence(rapid.Uint64().Draw(t, "fence")), TTL: anyTime.Draw(t, "ttl"), Left: anyTime.Draw(t, "left"), Elapsed: anyTime.Draw(t, "elapsed"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "slots") {
			token.Slots = append(token.Slots, lease.GrantedSlot{
				Pool: anyName.Draw(t, "pool"), ID: anyName.Draw(t, "slot"), Units: rapid.Int64().Draw(t, "units"), Whole: rapid.Bool().Draw(t, "whole"),
				Labels: labelMap.Draw(t, "labels"),
				Handover: rapid.SampledFrom([]lease.Handover{
					{After: lease.AtOnce}, {After: lease.AtOnce, Max: time.Hour}, {After: 15 * time.Second},
					{Proofs: lease.ProofTree | lease.ProofBoot, Max: lease.DefaultMax}, {Proofs: lease.ProofCleaned, Max: time.Minute},
				}).Draw(t, "handover"),
			})
		}
		got, err := api.FromToken(wired(t, api.Token(token)))
		if err != nil || !reflect.DeepEqual(got, token) {
			t.Fatalf("sent %+v, got %+v, %v", token, got, err)
		}
	})
}

func TestPoolsComeAcross(t *testing.T) {
	specs := []lease.PoolSpec{
		{Name: "plain", Settings: &lease.Settings{}, Slots: []lease.SlotSpec{{ID: "a"}, {ID: "b", Capacity: 20, Labels: map[string]string{"model": "x"}}}},
		{Name: "foreign"},
		{Name: "all", Settings: &lease.Settings{
			TTL: time.Second, MaxTTL: time.Hour, MaxHold: 2 * time.Hour, StallAfter: time.Minute, StallRevokes: true,
			Handover: lease.Handover{Proofs: lease.ProofBoot | lease.ProofCleaned, Max: time.Hour}, Clean: []string{"wipe", "-a"},
		}},
		{Name: "at once", Settings: &lease.Settings{Handover: lease.Handover{After: lease.AtOnce}}},
		{Name: "later", Settings: &lease.Settings{Handover: lease.Handover{After: time.Minute, Max: time.Hour}}},
	}
	got, err := api.FromSpecs(wired(t, &berthv1.ApplyRequest{Pools: api.Specs(specs)}).GetPools())
	if err != nil || !reflect.DeepEqual(got, specs) {
		t.Errorf("sent %+v, got %+v, %v", specs, got, err)
	}
	diff := lease.Diff{Added: []string{"a"}, Changed: []string{"b"}, Removed: []string{"c"}, Marked: []string{"d"}}
	if got := api.FromDiff(wired(t, api.Diff(diff))); !reflect.DeepEqual(got, diff) {
		t.Errorf("sent %+v, got %+v", diff, got)
	}
}

// TestTimesThatNobodyCanKeep are refused with the field, and not cut.
func TestTimesThatNobodyCanKeep(t *testing.T) {
	for _, d := range []*durationpb.Duration{{Seconds: 1 << 40}, {Seconds: -1 << 40}, {Seconds: 9223372036}, {Seconds: 1, Nanos: -1}, {Nanos: 2_000_000_000}} {
		if _, err := api.FromRequest(&berthv1.AcquireRequest{Wait: d}); lease.CodeOf(err) != lease.CodeRequestInvalid {
			t.Errorf("a wait of %v gave %v", d, err)
		}
		if _, err := api.FromToken(&berthv1.Token{Left: d}); lease.CodeOf(err) != lease.CodeReplyInvalid {
			t.Errorf("%v left gave %v", d, err)
		}
		if _, err := api.FromToken(&berthv1.Token{Slots: []*berthv1.GrantedSlot{{Handover: &berthv1.Handover{Max: d}}}}); lease.CodeOf(err) != lease.CodeReplyInvalid {
			t.Errorf("a handover of %v gave %v", d, err)
		}
		if _, err := api.FromSpecs([]*berthv1.PoolSpec{{Settings: &berthv1.Settings{MaxTtl: d}}}); lease.CodeOf(err) != lease.CodePoolsInvalid {
			t.Errorf("a max_ttl of %v gave %v", d, err)
		}
	}
	if _, err := api.FromToken(&berthv1.Token{Slots: []*berthv1.GrantedSlot{{Handover: &berthv1.Handover{Proofs: []string{"hope"}}}}}); lease.CodeOf(err) != lease.CodeReplyInvalid {
		t.Errorf("an unknown proof gave %v", err)
	}
}

// TestEveryCodeComesAcross with its text and the status of its policy.
func TestEveryCodeComesAcross(t *testing.T) {
	for _, code := range policy.Codes() {
		sent := lease.Errorf(lease.Code(code), "cannot do %s", code)
		told := api.Error(fmt.Errorf("the handler: %w", sent))
		if p, _ := policy.ForCode(code); connect.CodeOf(told).String() != string(p.Status) {
			t.Errorf("%s is told as %v, want %s", code, connect.CodeOf(told), p.Status)
		}
		if got := api.FromError(told); lease.CodeOf(got) != lease.Code(code) || got.Error() != "the handler: cannot do "+code {
			t.Errorf("%s came across as %v", code, got)
		}
	}
	if api.Error(nil) != nil {
		t.Error("nil became an error")
	}
	if told := api.Error(errors.New("a fault")); connect.CodeOf(told) != connect.CodeInternal {
		t.Errorf("an error without a code is told as %v", told)
	}
	if got := api.FromError(api.Error(context.Canceled)); lease.CodeOf(got) != lease.CodeCancelled {
		t.Errorf("a call that was cancelled came across as %v", got)
	}
	for _, foreign := range []error{errors.New("connection reset"), connect.NewError(connect.CodeUnavailable, errors.New("a proxy"))} {
		if got := api.FromError(foreign); got != foreign {
			t.Errorf("%v became %v", foreign, got)
		}
	}
}

// FuzzFromWire: whatever comes over the wire is refused or understood.
func FuzzFromWire(f *testing.F) {
	text, err := proto.Marshal(api.Request(lease.Request{ID: "a", Claims: []lease.Claim{{Pool: "g"}}, Wait: time.Second}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var request berthv1.AcquireRequest
		if proto.Unmarshal(text, &request) == nil {
			if r, err := api.FromRequest(&request); err == nil {
				_, _ = r.Checked()
			}
		}
		var token berthv1.Token
		if proto.Unmarshal(text, &token) == nil {
			_, _ = api.FromToken(&token)
		}
		var apply berthv1.ApplyRequest
		if proto.Unmarshal(text, &apply) == nil {
			_, _ = api.FromSpecs(apply.GetPools())
		}
	})
}
