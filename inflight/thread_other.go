//go:build !linux

package inflight

// onMainThread cannot be told here.
func onMainThread() bool { return false }
