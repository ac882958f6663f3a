package failure

import (
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// Error is one error of a decoded tree. errors.Is and errors.As look through it
// at the registered sentinel or struct it stands for, and at its causes.
type Error struct {
	// Type is the registered name, or the Go type's name ("*shop.LimitError").
	Type string
	// Message is the whole text; those of the causes are not added to it.
	Message string
	// Final says that the error or one of its causes was marked as final.
	Final bool
	// After is the delay asked for by RetryAfter, or 0.
	After time.Duration
	// Stack of a panic, or empty.
	Stack string
	// Outcome and Limit say how the attempt ended, where that is known.
	Outcome pb.Outcome
	Limit   pb.Limit
	// Details are the encoded fields of an error struct, or nil.
	Details *pb.Payload

	known  error // the registered sentinel or struct, or nil
	causes []error
}

// Error returns the message as it was recorded.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the registered error, if there is one, and the causes.
func (e *Error) Unwrap() []error {
	if e.known == nil {
		return e.causes
	}
	return append([]error{e.known}, e.causes...)
}

// IsType says whether an error of this type's name is in err's tree. The name
// is the registered one or, for types that are not registered, the Go name as
// %T prints it: it matches errors that crossed the wire and those that did not.
func IsType(err error, name string) bool {
	found := false
	walk(err, func(e error) bool {
		if d, ok := e.(*Error); ok && d != nil {
			found = d.Type == name
		} else {
			n, _ := typeName(e)
			found = n == name
		}
		return !found
	})
	return found
}
