// Package apierr is the one error type of the engine's interface: what a client
// call or a worker's stream is refused with, whatever carries the call.
//
// It owns the codes and the wording's shape; it must not know a transport, nor
// the calls that fail.
package apierr

import (
	"errors"
	"fmt"
	"strings"
)

// Code tells a caller what it can do about an error.
type Code int

// The codes. The list is closed; a transport maps each to its own and back.
const (
	// Internal: the engine is at fault; the details are in its log.
	Internal Code = iota
	// InvalidArgument: the request can never succeed as it is.
	InvalidArgument
	// NotFound: there is no such run or type.
	NotFound
	// AlreadyExists: the id is taken; RunID says by which run.
	AlreadyExists
	// FailedPrecondition: the state of the run or of the engine forbids it.
	FailedPrecondition
	// ResourceExhausted: a limit is reached; later it may succeed.
	ResourceExhausted
	// Unavailable: the engine cannot serve now; the same request may be
	// repeated, also when it may have been carried out.
	Unavailable
	// Closed: the engine is closed and will not serve again.
	Closed
)

func (c Code) String() string {
	names := [...]string{
		"internal", "invalid argument", "not found", "already exists",
		"failed precondition", "resource exhausted", "unavailable", "closed",
	}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("code %d", int(c))
	}
	return names[c]
}

// Error is an error of the engine's interface.
type Error struct {
	Code Code
	// Op is the call, "start".
	Op string
	// Message says what happened, and to which run.
	Message string
	// Hint says what to do about it; it may be empty.
	Hint string
	// RunID is the run in the way, for AlreadyExists.
	RunID string
	// Err is the cause, if it helps the caller. Message tells of it already.
	Err error
}

// Error is one line, "op: message (hint)".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	b.WriteString(e.Message)
	if e.Message == "" {
		b.WriteString(e.Code.String())
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(b.String())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first *Error in err's tree, and Internal for
// an error that has none. It has no meaning for a nil error.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Is says whether err has an *Error with this code. Unlike CodeOf it tells an
// Internal error from one of another kind.
func Is(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}
