package failure

import (
	"fmt"
	"reflect"

	"github.com/engined/engined/sdk/codec"

	pb "github.com/engined/engined/proto/enginepb"
)

// Encode returns err's tree as it is recorded and carried, within the limits of
// this package, with no outcome. c encodes the fields of registered structs; nil
// is codec.Default. It never fails and never panics: what an error's own methods
// do wrong is said in the message. Encode(nil, c) is nil.
func Encode(err error, c codec.Codec) *pb.Failure {
	if err == nil {
		return nil
	}
	e := encoder{codec: codec.Checked(c), left: MaxErrors}
	f := e.encode(err, 0)
	f.Final = IsFinal(err)
	f.RetryAfter = int64(Delay(err))
	return f
}

type encoder struct {
	codec codec.Codec
	left  int
}

func (e *encoder) encode(err error, depth int) *pb.Failure {
	e.left--
	final := false
	after := int64(0)
	for marks := 0; marks < MaxErrors; marks++ {
		m, ok := err.(*mark)
		if !ok {
			break
		}
		final = final || m.final
		if after == 0 {
			after = int64(m.after)
		}
		err = m.error
	}
	limit := MaxMessage
	if depth > 0 {
		limit = MaxCauseMessage
	}
	f := &pb.Failure{Message: Cut(message(err), limit), Final: final, RetryAfter: after}
	causes := e.describe(f, err)
	if depth+1 >= MaxDepth {
		return f
	}
	for _, c := range causes {
		if e.left <= 0 {
			break
		}
		if c != nil {
			f.Causes = append(f.Causes, e.encode(c, depth+1))
		}
	}
	return f
}

// describe fills in what is particular to the kind of error, and returns the
// causes still to encode.
func (e *encoder) describe(f *pb.Failure, err error) []error {
	if d, ok := err.(*Error); ok && d != nil {
		// It has crossed before: what it came as goes on, known here or not.
		f.Type, f.Details = Cut(d.Type, MaxType), d.Details
		f.Final = f.Final || d.Final
		f.Stack, f.Outcome, f.Limit = d.Stack, d.Outcome, d.Limit
		if f.RetryAfter == 0 {
			f.RetryAfter = int64(d.After)
		}
		return d.causes
	}
	name, isType := typeName(err)
	f.Type = Cut(name, MaxType)
	if isType {
		f.Details = e.details(err)
	}
	return unwrap(err)
}

// details encodes the fields of a registered error struct, or returns nil when
// they have no encoding or are too large; type and message are kept then.
func (e *encoder) details(err error) (p *pb.Payload) {
	defer func() {
		if recover() != nil {
			p = nil
		}
	}()
	p, encodeErr := e.codec.Encode(withoutErrors(err))
	if encodeErr != nil || len(p.Data) > MaxDetails {
		return nil
	}
	return p
}

// withoutErrors returns a copy of the error with its exported fields of type
// error set to nil: they travel as causes, and have no encoding as fields.
func withoutErrors(err error) any {
	v := reflect.ValueOf(err)
	isPointer := v.Kind() == reflect.Pointer
	if isPointer {
		v = v.Elem()
	}
	c := reflect.New(v.Type())
	c.Elem().Set(v)
	for _, field := range errorFields(c.Elem()) {
		field.SetZero()
	}
	if isPointer {
		return c.Interface()
	}
	return c.Elem().Interface()
}

// errorFields returns the settable fields of type error of a struct.
func errorFields(v reflect.Value) []reflect.Value {
	if v.Kind() != reflect.Struct {
		return nil
	}
	var out []reflect.Value
	for i := range v.NumField() {
		if f := v.Field(i); f.CanSet() && f.Type() == reflect.TypeFor[error]() {
			out = append(out, f)
		}
	}
	return out
}

// typeName is the registered name, else the Go type's.
func typeName(err error) (name string, isType bool) {
	if isNil(err) {
		return reflect.TypeOf(err).String(), false
	}
	if name, isType = known.nameOf(err); name != "" {
		return name, isType
	}
	return reflect.TypeOf(err).String(), false
}

// message is err.Error(), also when that panics.
func message(err error) (s string) {
	defer func() {
		if v := recover(); v != nil {
			s = fmt.Sprintf("(the Error method of %T panicked: %v)", err, v)
		}
	}()
	return err.Error()
}
