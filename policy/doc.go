// Package policy says what each code means for whoever gets it: of which
// class it is, whether to ask again, with which exit code a program ends,
// which status the API gives, and whether a message is acknowledged.
//
// It does not decide for anybody: an error with a code may still be handled
// better where it is known what was being done. It has no opinion on errors
// without a code but one: they are faults of berth until somebody gives them a
// code.
//
// [rows] is the only table about codes. It is keyed by what Code() string
// returns, so that packages which do not know package lease, like guard, have
// their rows here too.
package policy
