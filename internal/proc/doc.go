// Package proc runs a command in a process group of its own and returns only
// when the whole group is gone.
//
// What it does not do: a process that leaves the group (setsid, setpgid) is
// neither seen nor ended; that needs a cgroup. A process that outlives SIGKILL
// (it hangs inside the kernel) cannot be waited for: its pid is named in the
// error, and the command's work may still run. Outside Linux less holds; see
// [Command.Run].
package proc
