// Package api turns the types of package lease into the messages of the wire and
// back.
//
// It does no I/O and promises nothing about what a peer sends: a message that
// breaks the contract becomes an error with a code and the field's name, never
// a panic. What only a pool or the broker can judge is left to them.
//
// The messages and services are in berth/v1, as protocol buffers and the code
// generated from them. The same endpoints speak Connect, gRPC, gRPC-Web and
// JSON over POST.
//
// `make proto` writes the generated code again; a test sees when it is not that
// of the definitions.
package api
