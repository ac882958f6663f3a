// Package client starts runs, follows them and asks for their results.
//
// It owns what a caller sees: typed functions in front of untyped messages,
// request ids that make a repeated call harmless, retries while the engine is
// not available, and typed errors. It must not know how its calls travel:
// Service is the engine itself, in the same process, or a connection to one.
package client
