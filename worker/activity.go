package worker

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/engined/engined/sdk/codec"

	pb "github.com/engined/engined/proto/enginepb"
)

// undoInput is what the input of an undo (*saga.Undo) does to be filled from
// the references that the engine sends.
type undoInput interface {
	UnmarshalUndo(env *pb.UndoEnvelope, key string, c codec.Codec) error
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
	undoType    = reflect.TypeFor[undoInput]()
)

// activityType is a registered activity.
type activityType struct {
	name      string
	fn        reflect.Value
	in        reflect.Type
	isUndo    bool
	hasResult bool
}

// meantAsActivity tells methods that take a context first, and something with
// it or back from it, from all others.
func meantAsActivity(t reflect.Type) bool {
	return t.NumIn() > 0 && t.In(0) == contextType
}

func newActivity(name string, fn reflect.Value) (*activityType, error) {
	t := fn.Type()
	in, out := t.NumIn(), t.NumOut()
	if in != 2 || t.In(0) != contextType || t.IsVariadic() || out < 1 || out > 2 || t.Out(out-1) != errorType {
		return nil, fmt.Errorf("%s is no activity: it must be func(context.Context, In) (Out, error) or func(context.Context, In) error, with one input", t)
	}
	for _, v := range []reflect.Type{t.In(1), t.Out(0)} {
		switch v.Kind() {
		case reflect.Chan, reflect.Func, reflect.UnsafePointer:
			return nil, fmt.Errorf("%s is no activity: a %s cannot be encoded", t, v)
		}
	}
	return &activityType{
		name: name, fn: fn, in: t.In(1), hasResult: out == 2,
		isUndo: reflect.PointerTo(t.In(1)).Implements(undoType),
	}, nil
}

// undecodableError says that the input does not fit the activity.
type undecodableError struct {
	activity string
	err      error
}

func (e *undecodableError) Error() string {
	return fmt.Sprintf("the input of %s cannot be decoded: %v", e.activity, e.err)
}

func (e *undecodableError) Unwrap() error { return e.err }

// resultError says that the result cannot be recorded.
type resultError struct {
	activity string
	err      error
}

func (e *resultError) Error() string {
	return fmt.Sprintf("the result of %s cannot be recorded: %v", e.activity, e.err)
}

func (e *resultError) Unwrap() error { return e.err }

// call runs the activity's function on the task's input.
func (a *activityType) call(ctx context.Context, t *pb.Task, c codec.Codec) (*pb.Payload, error) {
	in := reflect.New(a.in)
	if err := a.decode(in.Interface(), t, c); err != nil {
		return nil, &undecodableError{activity: t.Type, err: err}
	}
	out := a.fn.Call([]reflect.Value{reflect.ValueOf(ctx), in.Elem()})
	if err, _ := out[len(out)-1].Interface().(error); err != nil {
		return nil, err
	}
	if !a.hasResult {
		return nil, nil
	}
	p, err := c.Encode(out[0].Interface())
	if err != nil {
		return nil, &resultError{activity: t.Type, err: err}
	}
	return p, nil
}

func (a *activityType) decode(in any, t *pb.Task, c codec.Codec) error {
	undoes := t.GetDelivery().GetRole() == pb.Role_ROLE_UNDO
	switch {
	case a.isUndo && (!undoes || t.Undo == nil):
		return errors.New("it undoes a step, and was called as one")
	case !a.isUndo && undoes:
		return fmt.Errorf("it was called to undo a step, which takes a saga.Undo and not a %s", a.in)
	case a.isUndo:
		return in.(undoInput).UnmarshalUndo(t.Undo, t.Key, c)
	default:
		return c.Decode(t.Input, in)
	}
}
