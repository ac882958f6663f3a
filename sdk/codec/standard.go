package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pb "github.com/engined/engined/proto/enginepb"
)

type standard struct{}

// Deterministic, so that equal messages are equal bytes within one build.
var marshal = proto.MarshalOptions{Deterministic: true}

func (standard) Encode(v any) (*pb.Payload, error) {
	if v == nil {
		return &pb.Payload{Encoding: Null}, nil
	}
	p := &pb.Payload{Encoding: JSON}
	var err error
	if m, ok := v.(proto.Message); ok {
		if !m.ProtoReflect().IsValid() {
			return &pb.Payload{Encoding: Null}, nil
		}
		p.Encoding, p.Type = Proto, string(m.ProtoReflect().Descriptor().FullName())
		p.Data, err = marshal.Marshal(m)
	} else {
		p.Data, err = marshalJSON(v)
	}
	if err != nil {
		return nil, &EncodeError{Value: v, Err: err}
	}
	if err := checkSize(p); err != nil {
		return nil, err
	}
	return p, nil
}

// marshalJSON leaves <, > and & as they are: payloads are read by people.
func marshalJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (standard) Decode(p *pb.Payload, v any) error {
	if isNull(p) {
		return setZero(v)
	}
	var err error
	switch p.Encoding {
	case JSON:
		err = decodeJSON(p.Data, v)
	case Proto:
		err = decodeProto(p, v)
	default:
		err = fmt.Errorf("unknown encoding %q: give worker and client the codec that wrote it", p.Encoding)
	}
	if err != nil {
		return &DecodeError{Encoding: p.Encoding, Type: p.Type, Target: targetName(v), Err: err}
	}
	return nil
}

func decodeJSON(data []byte, v any) error {
	if m, store := message(v); m != nil {
		if err := protojson.Unmarshal(data, m); err != nil {
			return err
		}
		store()
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

func decodeProto(p *pb.Payload, v any) error {
	if target, ok := v.(*any); ok && target != nil {
		t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(p.Type))
		if err != nil {
			return err
		}
		m := t.New().Interface()
		*target = m
		return proto.Unmarshal(p.Data, m)
	}
	m, store := message(v)
	if m == nil {
		return errors.New("the target is not a protobuf message")
	}
	if want := m.ProtoReflect().Descriptor().FullName(); p.Type != string(want) {
		return fmt.Errorf("the target is a %s", want)
	}
	if err := proto.Unmarshal(p.Data, m); err != nil {
		return err
	}
	store()
	return nil
}

// message returns the protobuf message to fill for the target v: *v itself when
// v is one, else a fresh one when v points to a pointer to one, to be put there
// by store. It is nil for any other target.
func message(v any) (m proto.Message, store func()) {
	if m, ok := v.(proto.Message); ok && m.ProtoReflect().IsValid() {
		return m, func() {}
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() || rv.Elem().Kind() != reflect.Pointer {
		return nil, nil
	}
	fresh := reflect.New(rv.Elem().Type().Elem())
	m, ok := fresh.Interface().(proto.Message)
	if !ok {
		return nil, nil
	}
	return m, func() { rv.Elem().Set(fresh) }
}

func setZero(v any) error {
	if m, ok := v.(proto.Message); ok && m.ProtoReflect().IsValid() {
		proto.Reset(m)
		return nil
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return &DecodeError{Encoding: Null, Target: targetName(v), Err: errTarget}
	}
	rv.Elem().SetZero()
	return nil
}

func targetName(v any) string {
	t := reflect.TypeOf(v)
	if t == nil {
		return "nothing"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.String()
}
