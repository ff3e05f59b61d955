//go:build !linux

package scope

// onMainThread cannot be told here.
func onMainThread() bool { return false }
