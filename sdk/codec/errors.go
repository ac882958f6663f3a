package codec

import (
	"errors"
	"fmt"
)

var (
	errNoPayload = errors.New("the codec returned neither a payload nor an error")
	errTrailing  = errors.New("more data follows the value")
	errTarget    = errors.New("the target is not a non-nil pointer")
)

// TooLargeError says that a value, once encoded, exceeds the limit. Sizes are
// in bytes.
type TooLargeError struct{ Size, Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the payload has %d bytes, the limit is %d: store the value elsewhere and pass a reference", e.Size, e.Limit)
}

// EncodeError says that a value has no encoding: a channel or function inside
// it, a NaN, an error of its own MarshalJSON.
type EncodeError struct {
	Value any
	Err   error
}

func (e *EncodeError) Error() string { return fmt.Sprintf("encode %T: %v", e.Value, e.Err) }

// Unwrap returns the encoder's own error.
func (e *EncodeError) Unwrap() error { return e.Err }

// DecodeError says that a payload does not fit the type it was decoded into.
type DecodeError struct {
	// Encoding and Type are the payload's.
	Encoding, Type string
	// Target is the Go type asked for.
	Target string
	Err    error
}

func (e *DecodeError) Error() string {
	from := e.Encoding
	if e.Type != "" {
		from += " " + e.Type
	}
	return fmt.Sprintf("decode a payload (%s) into %s: %v", from, e.Target, e.Err)
}

// Unwrap returns the decoder's own error.
func (e *DecodeError) Unwrap() error { return e.Err }
