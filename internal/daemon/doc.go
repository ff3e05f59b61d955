// Package daemon wires the parts of berth together; it alone names concrete
// stores.
//
// It decides nothing about leases and reads no command line.
package daemon
