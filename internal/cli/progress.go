package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/berth-dev/berth/lease"
	"github.com/berth-dev/berth/render"
)

// A progress tells how jobs go: a line for each that has ended, and on a
// terminal one live line below them.
type progress struct {
	w     io.Writer
	live  bool
	width int
	total int

	mu sync.Mutex
	// The fields below are guarded by mu.
	done, failed, queued int
	running              map[string]string // job by slot
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, total: total, running: map[string]string{}}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.live = true
		if p.width, _, _ = term.GetSize(int(f.Fd())); p.width <= 0 {
			p.width = 80
		}
	}
	return p
}

// observe takes in a step of a job.
func (p *progress) observe(s render.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s.Kind {
	case render.Queued:
		p.queued++
	case render.Started:
		p.queued--
		p.running[s.Slot] = s.Job.JobID
	case render.Ended:
		p.endedLocked(s)
	}
	p.drawLocked()
}

func (p *progress) endedLocked(s render.Step) {
	if s.Slot == "" {
		p.queued--
	} else {
		delete(p.running, s.Slot)
	}
	p.done++
	if s.Result.Err != nil {
		p.failed++
	}
	p.clearLocked()
	fmt.Fprintln(p.w, p.fit(line(s)))
}

// fit cuts a line to the terminal: a person sees the code and the start of the
// reason, a file gets all of it.
func (p *progress) fit(s string) string {
	runes := []rune(s)
	if !p.live || len(runes) < p.width {
		return s
	}
	return string(runes[:p.width-2]) + "…"
}

// line says how a job ended.
func line(s render.Step) string {
	r := s.Result
	if r.Err == nil {
		return fmt.Sprintf("  done    %-14s %-10s %6s  %s (%s)", s.Job.JobID, s.Slot, short(r.Receipt.Took), r.Receipt.OutputKey, size(r.Receipt.Bytes))
	}
	where := s.Slot
	if where == "" {
		where = "-"
	}
	return fmt.Sprintf("  failed  %-14s %-10s %6s  %s: %s", s.Job.JobID, where, "", kindOf(r.Err), firstLine(r.Err.Error()))
}

// kindOf is the code under which a failure is counted.
func kindOf(err error) string {
	if isCancelled(err) {
		return string(lease.CodeCancelled)
	}
	return string(lease.CodeOf(err))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(s, "; its stderr ends:")
}

func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// drawLocked writes the live line.
func (p *progress) drawLocked() {
	if !p.live {
		return
	}
	slots := make([]string, 0, len(p.running))
	for slot, job := range p.running {
		slots = append(slots, slot+" "+job)
	}
	slices.Sort(slots)
	text := fmt.Sprintf("  %d of %d, %d failed, %d waiting  %s", p.done, p.total, p.failed, p.queued, strings.Join(slots, "  "))
	fmt.Fprint(p.w, "\r\x1b[K", p.fit(text))
}

func (p *progress) clearLocked() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// end takes the live line away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
}
