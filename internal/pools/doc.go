// Package pools reads the pools file: the YAML file in which an operator
// declares pools and slots.
//
// It does not apply anything, and does not know what the broker has: whether a
// change of a pool is possible is the broker's to say. The file is trusted not
// to be a trap: it is the operator's own.
//
// Reading is strict. An unknown key, a wrong type, a value out of range, or
// anything that stands twice is refused, with line, column and field; nothing
// is guessed, and nothing of YAML beyond mappings, lists and scalars is
// understood. See testdata/pools.yaml for all that a file may say.
package pools
