// Package server speaks the API of package api for a running broker.
//
// What it does not do: it authenticates nobody, so it listens on loopback and on
// unix sockets only, where every caller is [lease.Local]; and it holds no state of
// its own: what is lost with a connection is asked for again by id.
//
// [Handler] is the API over HTTP: Connect, gRPC, gRPC-Web and JSON by POST on the
// same paths, with /healthz and /readyz beside them. [Listen] opens a socket, and
// [Serve] serves on it until its context ends.
package server
