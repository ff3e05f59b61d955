package scope

import "syscall"

func onMainThread() bool { return syscall.Gettid() == syscall.Getpid() }
