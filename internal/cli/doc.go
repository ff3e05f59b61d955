// Package cli is the berth tool: its commands, what they print and the codes
// they end with.
//
// It does no work of its own: brokers come from internal/daemon, jobs run in
// package render, exit codes stand in package policy. Data goes to standard
// output, progress and prose to standard error.
package cli
