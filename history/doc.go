// Package history owns the nouns of a run's history: what an event is, which
// events are inputs and which are decisions, the bytes they are stored as, what
// a well-formed history is, the keys derived from it, and how an event reads in
// a line of text.
//
// A run's history is a list of events numbered 1..n. Inputs are facts from
// outside; decisions are what the workflow code asked for when an input was
// folded, and carry that input's id as their cause. The events themselves are
// the protobuf messages of proto/engined/v1/history.proto.
//
// The package is pure: no I/O, no clock, no randomness. It must not know how a
// history is stored, folded or produced.
package history
