// Package berthv1connect holds the services of the wire as Go interfaces, with
// their clients and handlers, generated from the protocol buffers of package
// berthv1. Go programs use package client instead, which repeats what was lost.
package berthv1connect
