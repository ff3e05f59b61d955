// Package guardtest watches a resource in tests: what was acquired and not given back, what was
// given back twice, and a release on a context that could not carry it out.
package guardtest
