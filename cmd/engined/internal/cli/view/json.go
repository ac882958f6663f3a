package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// The integers that are times, in ns since 1970, and those that are durations in
// ns, by the names of their fields.
var (
	times = map[protoreflect.Name]bool{
		"time": true, "started": true, "ended": true, "closed": true, "since": true, "until": true, "last": true, "heard": true,
	}
	durations = map[protoreflect.Name]bool{
		"duration": true, "base": true, "cap": true, "retry_after": true, "start_to_close": true, "schedule_to_close": true,
		"schedule_to_start": true, "heartbeat": true, "cancel_grace": true, "soft_deadline": true, "hard_deadline": true,
	}
)

// internal numbers have no meaning outside of the engine.
var internal = map[protoreflect.FullName]bool{"engined.v1.RunInfo.run": true, "engined.v1.Attempt.incarnation": true}

// JSON returns a message as one line of JSON. Names are those of the protocol;
// fields that are not set are left out. Times are RFC 3339 in UTC, durations as Go
// writes them, the words of enums in small letters, integers exact. A payload is
// the value that it holds, or, if that is no JSON, an object that describes it.
func JSON(m proto.Message) json.RawMessage {
	var b bytes.Buffer
	message(&b, m.ProtoReflect())
	return inert(b.Bytes())
}

// With adds a field to an object.
func With(doc json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(doc, []byte("}")))
	if len(doc) > len("{}") {
		b.WriteByte(',')
	}
	text(&b, name)
	b.WriteByte(':')
	b.Write(value)
	b.WriteByte('}')
	return b.Bytes()
}

// inert writes what a terminal would act upon as JSON's own escape, which is the
// same value. Such characters stand in texts alone, and those below a space are
// escaped already.
func inert(doc []byte) []byte {
	harms := func(r rune) bool {
		return r >= 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
	}
	if bytes.IndexFunc(doc, harms) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		if harms(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.Bytes()
}

func message(b *bytes.Buffer, m protoreflect.Message) {
	switch x := m.Interface().(type) {
	case *pb.Payload:
		payload(b, x)
		return
	case *pb.Event:
		event(b, x)
		return
	}
	o := object{b: b}
	o.open()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); m.Has(f) && !internal[f.FullName()] {
			o.key(string(f.Name()))
			field(b, f, m.Get(f))
		}
	}
	o.close()
}

// event has its body under the name "body", beside its kind.
func event(b *bytes.Buffer, e *pb.Event) {
	o := object{b: b}
	o.open()
	o.key("id")
	b.WriteString(strconv.FormatInt(e.Id, 10))
	o.key("time")
	stamp(b, e.Time)
	o.key("kind")
	text(b, history.Kind(e))
	if e.Cause != 0 {
		o.key("cause")
		b.WriteString(strconv.FormatInt(e.Cause, 10))
	}
	m := e.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); f != nil {
		o.key("body")
		message(b, m.Get(f).Message())
	}
	o.close()
}

// object writes the commas of an object.
type object struct {
	b    *bytes.Buffer
	some bool
}

func (o *object) open()  { o.b.WriteByte('{') }
func (o *object) close() { o.b.WriteByte('}') }

func (o *object) key(name string) {
	if o.some {
		o.b.WriteByte(',')
	}
	o.some = true
	text(o.b, name)
	o.b.WriteByte(':')
}

func field(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case f.IsMap():
		o := object{b: b}
		o.open()
		for _, k := range sortedKeys(v.Map()) {
			o.key(k)
			one(b, f.MapValue(), v.Map().Get(protoreflect.ValueOfString(k).MapKey()))
		}
		o.close()
	case f.IsList():
		b.WriteByte('[')
		for i := range v.List().Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			one(b, f, v.List().Get(i))
		}
		b.WriteByte(']')
	default:
		one(b, f, v)
	}
}

func one(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		message(b, v.Message())
	case protoreflect.EnumKind:
		text(b, enum(f.Enum(), v.Enum()))
	case protoreflect.BoolKind:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case protoreflect.StringKind:
		text(b, v.String())
	case protoreflect.BytesKind:
		text(b, base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.Fixed64Kind, protoreflect.Uint64Kind, protoreflect.Uint32Kind:
		b.WriteString(strconv.FormatUint(v.Uint(), 10))
	default:
		switch n := v.Int(); {
		case times[f.Name()] && f.Parent().Name() != "Joined":
			stamp(b, n)
		case durations[f.Name()]:
			text(b, time.Duration(n).String())
		default:
			b.WriteString(strconv.FormatInt(n, 10))
		}
	}
}

func stamp(b *bytes.Buffer, ns int64) { text(b, time.Unix(0, ns).UTC().Format(time.RFC3339Nano)) }

// text writes a string as JSON, without the escapes that HTML would need.
func text(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	b.Truncate(b.Len() - 1)
}

// PayloadJSON is a payload as JSON holds it.
func PayloadJSON(p *pb.Payload) json.RawMessage {
	var b bytes.Buffer
	payload(&b, p)
	return inert(b.Bytes())
}

func payload(b *bytes.Buffer, p *pb.Payload) {
	switch {
	case p == nil || p.Encoding == "null" || p.Encoding == "" && len(p.Data) == 0:
		b.WriteString("null")
	case p.Encoding == "json" && utf8.Valid(p.Data) && json.Valid(p.Data):
		// As it is but for the spaces: a number keeps all its digits.
		_ = json.Compact(b, p.Data) // it is valid
	default:
		o := object{b: b}
		o.open()
		o.key("encoding")
		text(b, p.Encoding)
		if p.Type != "" {
			o.key("type")
			text(b, p.Type)
		}
		o.key("size")
		b.WriteString(strconv.Itoa(len(p.Data)))
		o.key("base64")
		text(b, base64.StdEncoding.EncodeToString(p.Data))
		o.close()
	}
}
