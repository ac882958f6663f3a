package failure

import (
	"reflect"
	"time"

	"github.com/engined/engined/sdk/codec"

	pb "github.com/engined/engined/proto/enginepb"
)

// Decode returns the error that f was encoded from, as an *Error; see there. c
// decodes the fields of registered structs; nil is codec.Default. Details that
// do not decode leave the error with its type's name and message only.
// Decode(nil, c) is nil.
func Decode(f *pb.Failure, c codec.Codec) error {
	if f == nil {
		return nil
	}
	return decode(f, codec.Checked(c), 0)
}

func decode(f *pb.Failure, c codec.Codec, depth int) *Error {
	e := &Error{
		Type: f.Type, Message: f.Message, Final: f.Final, After: time.Duration(f.RetryAfter),
		Stack: f.Stack, Outcome: f.Outcome, Limit: f.Limit, Details: f.Details,
	}
	if depth < 4*MaxDepth { // whoever wrote it, the stack is ours
		for _, cause := range f.Causes {
			e.causes = append(e.causes, decode(cause, c, depth+1))
		}
	}
	t, sentinel := known.lookup(f.Type)
	switch {
	case sentinel != nil:
		e.known = sentinel
	case t != nil:
		e.known = revive(t, f.Details, e.causes, c)
	}
	return e
}

// revive makes an error struct of type t from its encoded fields, or returns nil.
func revive(t reflect.Type, details *pb.Payload, causes []error, c codec.Codec) (err error) {
	defer func() {
		if recover() != nil { // a decoder of the user's
			err = nil
		}
	}()
	if details == nil {
		return nil
	}
	isPointer := t.Kind() == reflect.Pointer
	if isPointer {
		t = t.Elem()
	}
	v := reflect.New(t)
	if c.Decode(details, v.Interface()) != nil {
		return nil
	}
	if fields := errorFields(v.Elem()); len(fields) > 0 && len(causes) > 0 {
		fields[0].Set(reflect.ValueOf(causes[0]))
	}
	if isPointer {
		return v.Interface().(error)
	}
	return v.Elem().Interface().(error)
}
