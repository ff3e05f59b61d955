//go:build unix

package proc

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWhatIsInThePipeIsPassedOnThoughItStaysOpen(t *testing.T) {
	var got bytes.Buffer
	s, err := newStream(new(sync.Mutex), &got)
	if err != nil {
		t.Fatal(err)
	}
	defer s.r.Close()
	defer s.w.Close()
	want := strings.Repeat("0123456789abcdef", 3<<10) // more than one buffer
	if _, err := s.w.WriteString(want); err != nil {
		t.Fatal(err)
	}
	s.r.SetReadDeadline(time.Unix(1, 0))
	s.pass()
	if got.String() != want {
		t.Errorf("%d of %d bytes arrived", got.Len(), len(want))
	}
}

func TestATailKeepsWholeCharacters(t *testing.T) {
	tail := &tail{size: 5}
	for _, part := range []string{"first ", "ééé\x07", " \n"} {
		tail.Write([]byte(part))
	}
	if got := tail.String(); got != "…é" {
		t.Errorf("tail is %q", got)
	}
}
