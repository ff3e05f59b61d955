// Package render turns sources into outputs under leased slots.
//
// It does not retry: a job that failed says how, and package policy says what
// that means. It does not watch a renderer's result beyond its being a whole
// picture, and between the last look at the lease and the rename of the output
// there is an instant in which the lease can end. A [Renderer] in this process
// that ignores its context cannot be stopped.
//
// A [Service] takes jobs. For each it acquires a lease, has a [Renderer] write
// the output to a staged file beside its place, puts it in place by a rename
// while the lease is trusted, gives the lease back and returns a [Receipt]: an
// output is there whole or not at all. [SVG] is built in; [Command] runs any
// program.
package render
