// Package scopetest helps tests of code that stands on package scope: a scope that is closed
// however the test ends, and a check for goroutines that outlive it.
//
// The check sees the goroutines of the whole process, so it is of no use in tests that run in
// parallel with others. In a bubble of testing/synctest it is not needed: the bubble fails by
// itself.
package scopetest
