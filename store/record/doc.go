// Package record encodes what a broker keeps, the records of package lease,
// as the keys and values of a store.
//
// It does not check that a record makes sense, only that it can be read back
// exactly; and values are plain bytes: whoever reads the store knows the
// secret ids in it.
//
// # Keys
//
// A key is one byte for the kind and what the record is known by. Keys sort by
// kind and then by number or name, so that a load sees pools before slots and
// entries in the order of their arrival. The first byte 0 is left to stores.
//
//	1                            Ledger
//	2  number, 8 bytes           Start
//	3  name                      Pool
//	4  pool, 0, id               Slot
//	5  caller, 0, id             Session
//	6  machine                   Host
//	7  number, 8 bytes           Entry
//
// Numbers in keys are big-endian.
//
// # Values
//
// A value is one byte for the version of its kind and then the fields, in a
// fixed order, without names: numbers as varints (zigzag where they can be
// negative), texts with their length in front, ids of hex digits packed, lists
// and maps with their count in front, maps sorted, what may be missing behind
// a byte 0 or 1. What stands in the key is not repeated. Each record has
// exactly one encoding: anything else is refused as store_corrupt, and a
// version that this program does not know as store_newer.
//
// # A new version
//
// The field lists in fields.go are the format, for both directions. To add a
// field, also inside a claim or a part, raise the version of every kind that
// holds it (see kinds), read and write it at the end of its list behind
// "if c.version >= 2", and leave all that is there as it is: older values then
// load with the field at zero and are written in the new version when they
// change next. A new value of a state or end needs a new version too, or an
// older program would call it corrupt. A field that is no longer needed stays
// in its list. Then add golden values of the new version beside the old ones,
// which must go on loading.
package record
