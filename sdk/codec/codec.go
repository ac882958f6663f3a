// Package codec turns values of user code into payloads and back.
//
// It owns the encodings that every program of the system understands ("json",
// "proto", "null") and the limit on the size of a payload. It must not know
// where a payload goes: not workflows, not the engine.
package codec

import (
	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// MaxPayload is the largest payload that the system carries, in bytes.
const MaxPayload = history.MaxPayload

// The encodings of Default.
const (
	JSON  = "json"
	Proto = "proto"
	Null  = "null"
)

// Codec encodes and decodes the inputs and results of workflows and
// activities. Implementations must be safe for concurrent use, and must encode
// equal values to payloads that decode to equal values; they need not be equal
// bytes.
type Codec interface {
	// Encode returns v as a payload. The error is an *EncodeError or a
	// *TooLargeError when it comes from this package.
	Encode(v any) (*pb.Payload, error)
	// Decode stores the payload's value in *v. A nil payload and one of
	// encoding "null" set *v to its zero value. The error is a *DecodeError
	// when it comes from this package.
	Decode(p *pb.Payload, v any) error
}

// Default encodes protobuf messages in their binary form (encoding "proto"),
// an untyped nil or a nil message as "null", and everything else as JSON.
//
// Integers are exact: a number decoded into an `any` becomes a json.Number, not
// a float64. A JSON payload also decodes into a protobuf message, by protobuf's
// JSON mapping, so that a run can be started by hand.
var Default Codec = standard{}

// Checked returns c with the system's rules added: no payload is larger than
// MaxPayload, none is nil, and a nil or "null" payload decodes to the zero
// value without asking c. A nil c stands for Default. Worker and client wrap
// a user's codec in it.
func Checked(c Codec) Codec {
	switch c := c.(type) {
	case nil:
		return Default
	case standard, checked:
		return c
	default:
		return checked{c}
	}
}

type checked struct{ Codec }

func (c checked) Encode(v any) (*pb.Payload, error) {
	p, err := c.Codec.Encode(v)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, &EncodeError{Value: v, Err: errNoPayload}
	}
	return p, checkSize(p)
}

func (c checked) Decode(p *pb.Payload, v any) error {
	if isNull(p) {
		return setZero(v)
	}
	return c.Codec.Decode(p, v)
}

func checkSize(p *pb.Payload) error {
	if n := len(p.Data); n > MaxPayload {
		return &TooLargeError{Size: n, Limit: MaxPayload}
	}
	return nil
}

func isNull(p *pb.Payload) bool { return p == nil || p.Encoding == Null }
