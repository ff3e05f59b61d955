// Command simulate runs the seeded simulation of package simulate, several
// seeds at a time, and prints what it saw. It is for those who work on berth.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/simulate"
)

func main() {
	seed := flag.Uint64("seed", 1, "the first seed")
	seeds := flag.Int("seeds", 1, "how many seeds")
	steps := flag.Int("steps", 20_000, "steps of each")
	procs := flag.Int("procs", runtime.NumCPU(), "how many seeds run at a time")
	shrink := flag.Int("shrink", 400, "how often a failing history is run to shrink it; 0 does not")
	trace := flag.Int("trace", 80, "how many lines of a failing history to print")
	least := flag.Int("least", 50, "name pairs of command and state that were met fewer times")
	flag.Parse()
	if !run(*seed, *seeds, *steps, *procs, *shrink, *trace, *least) {
		os.Exit(1)
	}
}

func run(seed uint64, seeds, steps, procs, shrink, trace, least int) bool {
	began := time.Now()
	var sum totals
	ok := true
	for _, r := range results(seed, seeds, steps, procs) {
		got := <-r
		sum.add(got.Result)
		fmt.Printf("seed %d: %d steps, %d ops, %v of virtual time, %d starts, acquired %d = released %d + orphaned %d + revoked %d, withheld %d\n",
			got.seed, got.Steps, got.Ops, got.Took.Round(time.Second), got.Starts, got.Acquired, got.Released, got.Orphaned, got.Revoked, got.Withheld)
		if got.Breach != nil {
			ok = false
			report(simulate.Config{Seed: got.seed, Steps: steps}, got.Breach, shrink, trace)
		}
	}
	fmt.Printf("\n%d seeds, %d steps, %v of virtual time, acquired %d, in %v\n\n", seeds, sum.steps, sum.took.Round(time.Second), sum.acquired, time.Since(began).Round(time.Second))
	return sum.table(least) && ok
}

type result struct {
	simulate.Result
	seed uint64
}

// results runs the seeds, some at a time, and gives them in order.
func results(seed uint64, seeds, steps, procs int) []chan result {
	out := make([]chan result, seeds)
	for i := range out {
		out[i] = make(chan result, 1)
	}
	var mu sync.Mutex
	next := 0
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	for range min(procs, seeds) {
		// Each goroutine ends when no seed is left; main reads every result.
		go func() {
			for i := take(); i < seeds; i = take() {
				s := seed + uint64(i)
				out[i] <- result{simulate.Run(simulate.Config{Seed: s, Steps: steps}), s}
			}
		}()
	}
	return out
}

type totals struct {
	steps    int
	took     time.Duration
	acquired uint64
	met      simulate.Table
}

func (t *totals) add(r simulate.Result) {
	t.steps += r.Steps
	t.took += r.Took
	t.acquired += r.Acquired
	t.met.Add(r.Met)
}

// table prints how often each command met each state.
func (t *totals) table(least int) bool {
	t.met.Write(os.Stdout)
	rare, wrong := t.met.Rare(least)
	for _, s := range rare {
		fmt.Println("rare:", s)
	}
	for _, s := range wrong {
		fmt.Println("called unreachable:", s)
	}
	return len(wrong) == 0
}

// report prints a breach, shrunk to what it needs.
func report(cfg simulate.Config, b *simulate.Breach, shrink, lines int) {
	fmt.Printf("FAIL %v\n", b)
	if shrink > 0 {
		cfg, b = simulate.Shrink(cfg, b, shrink)
		fmt.Printf("shrunk to %d ops: %v\n", max(0, b.Ops-len(cfg.Drop)), b)
	}
	simulate.Tell(os.Stdout, cfg, lines)
}
