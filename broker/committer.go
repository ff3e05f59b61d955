package broker

import (
	"context"

	"github.com/berth-dev/berth/store"
)

// A committer makes one commit after the other, in a goroutine of its own
// that ends with stop. Only Run uses it.
type committer struct {
	todo chan Commit
	done chan error
	// busy says that a commit is under way.
	busy  bool
	ended chan struct{}
}

func newCommitter(s store.Store) *committer {
	c := &committer{todo: make(chan Commit, 1), done: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for commit := range c.todo {
			// A commit is never cut off: its outcome would be unknown.
			c.done <- s.Commit(context.Background(), commit.Seq, commit.Changes)
		}
	}()
	return c
}

// begin starts a commit. None may be under way.
func (c *committer) begin(commit Commit) {
	c.busy = true
	c.todo <- commit
}

// stop waits for the commit under way and ends the goroutine.
func (c *committer) stop() {
	close(c.todo)
	<-c.ended
}
