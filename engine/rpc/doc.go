// Package rpc serves an engine over gRPC: the workers' streams, the client's
// calls, the operator's, with health and reflection.
//
// It owns what a network adds: messages cut by bytes, histories in chunks, pings
// and the silence that ends a stream, bounds on what one peer may ask for at
// once, errors as statuses, and the order in which serving stops. It must not
// know any rule of the engine: it hands messages over as they come.
//
// # A worker's stream
//
//	worker ── hello, then messages ──▶ receive ──▶ engine.WorkerStream.Receive
//	worker ◀── welcome, then messages ── send ◀── engine.WorkerStream.Next
//	                                      ▲
//	                          watch: pings, silence, unread
//
// Two goroutines a stream, and one that watches all of them. The one that
// receives never blocks on anything but the network. The one that sends blocks
// while the peer does not read; what it would send next gathers in one message of
// the engine's, whose parts are bounded where they arise: inputs by bytes a
// worker, tasks by its slots.
//
// A process that is frozen, or that a dead network hides, breaks nothing: it is
// found by silence. The worker sends something each second, whatever its code
// does. Silence is counted in ticks of the watch and not read off a clock, so
// that an engine which was stopped itself does not accuse its workers. A worker
// that sends but does not read is found by the numbers of the messages that it
// says it has read.
package rpc
