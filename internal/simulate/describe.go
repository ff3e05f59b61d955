package simulate

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/lease/machine"
)

// describe names a command for people.
func describe(cmd machine.Command) string {
	switch c := cmd.(type) {
	case machine.Tick:
		return "tick"
	case machine.Acquire:
		return fmt.Sprintf("acquire %s (call %d, %v, wait %v, poll %v)", c.Request.ID.Ref(), c.Call, c.Request.Note, c.Request.Wait, c.Poll)
	case machine.Leave:
		return fmt.Sprintf("leave %s (call %d, session %s)", c.ID.Ref(), c.Call, c.Session)
	case machine.Cancel:
		return fmt.Sprintf("cancel %s (call %d, unused %v)", c.ID.Ref(), c.Call, c.Unused)
	case machine.Renew:
		return fmt.Sprintf("renew lease %s (call %d)", c.Lease.Ref(), c.Call)
	case machine.Release:
		return fmt.Sprintf("release lease %s (call %d)", c.Lease.Ref(), c.Call)
	case machine.Abandon:
		return fmt.Sprintf("abandon lease %s (call %d)", c.Lease.Ref(), c.Call)
	case machine.Clean:
		return fmt.Sprintf("clean %s/%s after lease %s by %s (call %d)", c.Pool, c.Slot, c.Lease, c.ID.Ref(), c.Call)
	case machine.Apply:
		return fmt.Sprintf("apply of %s, %d pools", c.Source, len(c.Pools))
	}
	return fmt.Sprintf("%T%+v", cmd, cmd)
}

// traceStep writes what a step did, but for idle ticks.
func (w *World) traceStep(now time.Duration, cmd machine.Command, fx *machine.Effects) {
	if _, tick := cmd.(machine.Tick); tick && len(fx.Changes)+len(fx.Answers)+len(fx.Events) == 0 {
		return
	}
	var b strings.Builder
	for _, a := range fx.Answers {
		switch {
		case a.Err != nil:
			fmt.Fprintf(&b, "; call %d: %s", a.Call, a.Err.Code())
		case a.Token.LeaseID != "":
			fmt.Fprintf(&b, "; call %d: lease %s for %v", a.Call, a.Token.LeaseID.Ref(), a.Token.Left)
		default:
			fmt.Fprintf(&b, "; call %d: done", a.Call)
		}
	}
	for _, e := range fx.Events {
		fmt.Fprintf(&b, "; %s", e.Kind)
		for _, s := range []string{string(e.Lease.Ref()), e.Pool, e.Slot, e.Why} {
			if s != "" {
				b.WriteString(" " + s)
			}
		}
	}
	if fx.More {
		b.WriteString("; more to do")
	}
	w.logf("broker %v: %s%s", now, describe(cmd), b.String())
}
