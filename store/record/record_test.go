package record_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/store/record"
)

// A tester is a *testing.T, B or F, or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// encode returns the key and value of a record.
func encode(t tester, r any) (key, value []byte) {
	t.Helper()
	key, err := record.AppendKey(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	value, err = record.AppendValue(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	return key, value
}

// again demands that the record comes back as it was.
func again(t tester, r any) {
	t.Helper()
	key, value := encode(t, r)
	var d record.Decoder
	got, err := d.Decode(key, value)
	if err != nil {
		t.Fatalf("%#v: %v", r, err)
	}
	if !reflect.DeepEqual(got, r) {
		t.Fatalf("came back as\n%#v\nnot\n%#v", got, r)
	}
}

// The generators fill every field by reflection, so that a field which is
// added to a record and not to its encoding makes these tests fail.
func TestEveryFieldComesBack(t *testing.T) {
	texts := rapid.String()
	settings := rapid.Custom(func(t *rapid.T) lease.Settings {
		s := rapid.Make[lease.Settings]().Draw(t, "settings")
		s.Handover.Proofs &= 7
		s.Clean = orNil(s.Clean)
		return s
	})
	kinds := map[string]func(*rapid.T) any{
		"ledger": func(t *rapid.T) any { r := rapid.Make[lease.Ledger]().Draw(t, "r"); return &r },
		"start":  func(t *rapid.T) any { r := rapid.Make[lease.Start]().Draw(t, "r"); return &r },
		"host":   func(t *rapid.T) any { r := rapid.Make[lease.Host]().Draw(t, "r"); return &r },
		"pool": func(t *rapid.T) any {
			r := rapid.Make[lease.Pool]().Draw(t, "r")
			r.Settings = settings.Draw(t, "settings")
			return &r
		},
		"slot": func(t *rapid.T) any {
			r := rapid.Make[lease.Slot]().Draw(t, "r")
			r.ID = strings.ReplaceAll(r.ID, "\x00", "")
			r.Labels = noneIfEmpty(r.Labels)
			return &r
		},
		"session": func(t *rapid.T) any {
			r := rapid.Make[lease.Session]().Draw(t, "r")
			r.ID = strings.ReplaceAll(texts.Draw(t, "id"), "\x00", "")
			return &r
		},
		"entry": func(t *rapid.T) any { return drawEntry(t) },
	}
	for name, draw := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { again(rt, draw(rt)) })
		})
	}
}

func drawEntry(t *rapid.T) *lease.Entry {
	e := rapid.Make[lease.Entry]().Draw(t, "entry")
	e.State %= lease.Ended + 1
	e.End %= lease.EndRevoked + 1
	if rapid.Bool().Draw(t, "hex") {
		e.ID = lease.NewRequestID()
	}
	if e.Request != nil {
		e.Request.Claims = orNil(e.Request.Claims)
		for i := range e.Request.Claims {
			e.Request.Claims[i].Select = noneIfEmpty(e.Request.Claims[i].Select)
		}
		if rapid.Bool().Draw(t, "same id") {
			e.Request.ID = e.ID
		}
	}
	if e.Lease == nil {
		return &e
	}
	e.Lease.Parts = orNil(e.Lease.Parts)
	for i := range e.Lease.Parts {
		p := &e.Lease.Parts[i]
		p.State %= lease.PartFree + 1
		if p.Terms != nil {
			p.Terms.Handover.Proofs &= 7
		}
	}
	return &e
}

func orNil[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

func noneIfEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func TestZeroAndExtremeValuesComeBack(t *testing.T) {
	const most, least = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, r := range []any{
		&lease.Ledger{}, &lease.Start{}, &lease.Pool{}, &lease.Slot{}, &lease.Session{}, &lease.Host{}, &lease.Entry{},
		&lease.Ledger{Now: least, Fence: math.MaxUint64, Number: math.MaxUint64, Revoked: math.MaxUint64},
		&lease.Start{Number: math.MaxUint64, Began: most},
		&lease.Slot{Pool: "p", ID: "s", Capacity: math.MinInt64, Freed: least, SettleUntil: most},
		&lease.Entry{Number: math.MaxUint64, Request: &lease.Request{}, Lease: &lease.Lease{}},
		&lease.Entry{Lease: &lease.Lease{Parts: []lease.Part{{Terms: &lease.Terms{}}}, Cleans: &lease.CleanOf{}}},
		&lease.Entry{ID: "0f", Request: &lease.Request{ID: "0F", Priority: math.MinInt, Holder: lease.Holder{Process: lease.Process{PID: math.MaxInt}}}},
	} {
		again(t, r)
	}
}

func TestKeysSortByKindAndNumber(t *testing.T) {
	var last []byte
	for _, r := range []any{
		&lease.Ledger{}, &lease.Start{Number: 2}, &lease.Start{Number: 256}, &lease.Pool{Name: "a"}, &lease.Pool{Name: "b"},
		&lease.Slot{Pool: "a", ID: "9"}, &lease.Slot{Pool: "a-b", ID: "1"}, &lease.Session{Caller: "local", ID: "x"},
		&lease.Host{Machine: "m"}, &lease.Entry{Number: 9}, &lease.Entry{Number: 255}, &lease.Entry{Number: 256}, &lease.Entry{Number: math.MaxUint64},
	} {
		key, _ := encode(t, r)
		if string(key) <= string(last) {
			t.Errorf("the key of %#v is %x, not after %x", r, key, last)
		}
		last = key
	}
}

func TestWhatIsNoRecordIsRefused(t *testing.T) {
	for _, r := range []any{nil, lease.Ledger{}, &lease.Lease{}, "x"} {
		if dst, err := record.AppendKey([]byte("k"), r); lease.CodeOf(err) != lease.CodeInternal || string(dst) != "k" {
			t.Errorf("AppendKey(%#v) = %q, %v", r, dst, err)
		}
		if dst, err := record.AppendValue([]byte("v"), r); lease.CodeOf(err) != lease.CodeInternal || string(dst) != "v" {
			t.Errorf("AppendValue(%#v) = %q, %v", r, dst, err)
		}
	}
}

func TestDecodedRecordsShareNamesAndTerms(t *testing.T) {
	var d record.Decoder
	var entries []*lease.Entry
	for n := range uint64(2) {
		e := heldEntry()
		e.Number = n
		key, value := encode(t, e)
		r, err := d.Decode(key, value)
		if err != nil {
			t.Fatal(err)
		}
		clear(value) // what was decoded must not lean on it
		if !reflect.DeepEqual(r, e) {
			t.Fatalf("changed with its value: %#v", r)
		}
		entries = append(entries, r.(*lease.Entry))
	}
	if a, b := entries[0].Lease, entries[1].Lease; a.Parts[0].Terms != b.Parts[0].Terms {
		t.Error("equal terms are two")
	}
	ended := heldEntry()
	ended.Lease.Parts[0].Terms = &lease.Terms{Clean: true}
	key, value := encode(t, ended)
	if r, err := d.Decode(key, value); err != nil || !r.(*lease.Entry).Lease.Parts[0].Terms.Clean {
		t.Errorf("other terms came back as %#v, %v", r, err)
	}
}

// A value that is cut anywhere, or goes on after its end, is refused.
func TestCutAndLongValuesAreRefused(t *testing.T) {
	for _, r := range samples() {
		key, value := encode(t, r)
		for n := range value {
			wantCode(t, key, value[:n], lease.CodeStoreCorrupt)
		}
		wantCode(t, key, append(value[:len(value):len(value)], 0), lease.CodeStoreCorrupt)
	}
}

func wantCode(t *testing.T, key, value []byte, code lease.Code) {
	t.Helper()
	var d record.Decoder
	r, err := d.Decode(key, value)
	if lease.CodeOf(err) != code || r != nil {
		t.Errorf("Decode(%x, %x) = %#v, %v; want %s", key, value, r, err, code)
	}
}

func TestErrorsNameTheRecordAndNoID(t *testing.T) {
	const session = "c0ffee00c0ffee00c0ffee00c0ffee00"
	for _, c := range []struct {
		what, key, value string
		code             lease.Code
		text             string
	}{
		{"cut", "\x07\x00\x00\x00\x00\x00\x00\x01\x00", "\x01\x05loc", lease.CodeStoreCorrupt, "cannot read the store's record entry 256: it is cut short; restore a backup"},
		{"empty", "\x03gpu", "", lease.CodeStoreCorrupt, `cannot read the store's record pool "gpu": the value is empty; restore a backup`},
		{"version 0", "\x01", "\x00", lease.CodeStoreCorrupt, "cannot read the store's record ledger: it has version 0, which was never written; restore a backup"},
		{"more", "\x02\x00\x00\x00\x00\x00\x00\x00\x03", "\x01\x02\x00\x00\x02", lease.CodeStoreCorrupt, "cannot read the store's record start 3: it is followed by bytes that do not belong to it; restore a backup"},
		{"idle byte", "\x06m1", "\x01\x80\x00", lease.CodeStoreCorrupt, `cannot read the store's record host "m1": its bytes are not as they were written; restore a backup`},
		{"unpacked id", "\x06m1", "\x01\x0400", lease.CodeStoreCorrupt, `cannot read the store's record host "m1": its bytes are not as they were written; restore a backup`},
		{"number", "\x02\x00\x00\x00\x00\x00\x00\x00\x03", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", lease.CodeStoreCorrupt, "cannot read the store's record start 3: a number in it is too large; restore a backup"},
		{"long text", "\x06m1", "\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", lease.CodeStoreCorrupt, `cannot read the store's record host "m1": it is cut short; restore a backup`},
		{"long list", "\x03gpu", "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x7f", lease.CodeStoreCorrupt, `cannot read the store's record pool "gpu": it is cut short; restore a backup`},
		{"bool", "\x03gpu", "\x01\x00\x00\x00\x00\x00\x02", lease.CodeStoreCorrupt, `cannot read the store's record pool "gpu": a state in it is unknown; restore a backup`},
		{"newer", "\x04gpu\x00gpu-0", "\x02\x00", lease.CodeStoreNewer, `cannot read the store's record slot "gpu/gpu-0": a newer berth wrote it, in version 2 where this one knows 1; start that version, or restore a backup taken before it`},
		{"newer kind", "\x08x", "\x01", lease.CodeStoreNewer, "cannot read the store: a newer berth wrote records of kind 8 into it, which this one does not know; start that version, or restore a backup taken before it"},
		{"session", "\x05local\x00" + session, "\x01", lease.CodeStoreCorrupt, "cannot read the store's record session 23e0bf16a823: it is cut short; restore a backup"},
		{"kind 0", "\x00x", "\x01", lease.CodeStoreCorrupt, "cannot read the store's record with the key 0078: the key has the wrong form; restore a backup"},
		{"no key", "", "\x01", lease.CodeStoreCorrupt, "cannot read the store's record with the key : the key is empty; restore a backup"},
		{"short number", "\x07\x01", "\x01", lease.CodeStoreCorrupt, "cannot read the store's record entry: the key has the wrong form; restore a backup"},
		{"long ledger", "\x01\x01", "\x01", lease.CodeStoreCorrupt, "cannot read the store's record ledger: the key has the wrong form; restore a backup"},
		{"slot of none", "\x04gpu", "\x01", lease.CodeStoreCorrupt, `cannot read the store's record slot "gpu": the key has the wrong form; restore a backup`},
	} {
		t.Run(c.what, func(t *testing.T) {
			var d record.Decoder
			r, err := d.Decode([]byte(c.key), []byte(c.value))
			if r != nil || !errors.Is(err, c.code.Err()) || err.Error() != c.text {
				t.Errorf("got %#v, %v (%s)\nwant %s (%s)", r, err, lease.CodeOf(err), c.text, c.code)
			}
			if err != nil && strings.Contains(err.Error(), session) {
				t.Errorf("the error shows an id: %v", err)
			}
		})
	}
}

// Labels out of order, or twice, are not what was written.
func TestLabelsHaveOneOrder(t *testing.T) {
	key, value := encode(t, &lease.Slot{Pool: "p", ID: "s", Labels: map[string]string{"a": "1", "b": "2"}})
	good := "\x02\x01a\x011\x01b\x012"
	for _, bad := range []string{"\x02\x01b\x012\x01a\x011", "\x02\x01a\x011\x01a\x011"} {
		wantCode(t, key, []byte(strings.Replace(string(value), good, bad, 1)), lease.CodeStoreCorrupt)
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range samples() {
		key, value := encode(f, r)
		f.Add(key, value)
	}
	f.Add([]byte("\x05local\x00abc"), []byte("\x01"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		var d record.Decoder
		r, err := d.Decode(key, value)
		if err != nil {
			if c := lease.CodeOf(err); c != lease.CodeStoreCorrupt && c != lease.CodeStoreNewer {
				t.Fatalf("refused with %s: %v", c, err)
			}
			return
		}
		k, v := encode(t, r)
		if string(k) != string(key) || string(v) != string(value) {
			t.Fatalf("%x = %x is written as %x = %x", key, value, k, v)
		}
	})
}
