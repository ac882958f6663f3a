package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/sdk/codec"

	pb "github.com/engined/engined/proto/enginepb"
)

type order struct {
	ID    string
	Cents int64
	Tags  map[string]string
	Any   any
}

func encode(t *testing.T, v any) *pb.Payload {
	t.Helper()
	p, err := codec.Default.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestJSONRoundTrip(t *testing.T) {
	in := order{ID: "<1> & \u2028", Cents: math.MaxInt64, Tags: map[string]string{"a": "b"}}
	p := encode(t, in)
	if p.Encoding != codec.JSON || bytes.HasSuffix(p.Data, []byte("\n")) || !bytes.Contains(p.Data, []byte("<1> &")) {
		t.Errorf("payload %s %q", p.Encoding, p.Data)
	}
	var out order
	if err := codec.Default.Decode(p, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("decoded %+v, %v", out, err)
	}
}

func TestIntegersAreExactInAny(t *testing.T) {
	const big = "9223372036854775807"
	var out any
	p := encode(t, map[string]any{"n": int64(math.MaxInt64)})
	if err := codec.Default.Decode(p, &out); err != nil {
		t.Fatal(err)
	}
	n := out.(map[string]any)["n"]
	if n != json.Number(big) {
		t.Errorf("n = %#v", n)
	}
	if again := encode(t, out); !bytes.Equal(again.Data, p.Data) {
		t.Errorf("encoded again: %s", again.Data)
	}
}

func TestProtobufMessagesTravelInBinary(t *testing.T) {
	in := &pb.RetryPolicy{Attempts: 3, Base: 7}
	p := encode(t, in)
	if p.Encoding != codec.Proto || p.Type != "engined.v1.RetryPolicy" {
		t.Fatalf("payload %v", p)
	}
	var byPointer *pb.RetryPolicy
	var byValue pb.RetryPolicy
	var byAny any
	for _, target := range []any{&byPointer, &byValue, &byAny} {
		if err := codec.Default.Decode(p, target); err != nil {
			t.Fatalf("%T: %v", target, err)
		}
	}
	for _, got := range []proto.Message{byPointer, &byValue, byAny.(proto.Message)} {
		if !proto.Equal(in, got) {
			t.Errorf("decoded %v", got)
		}
	}
}

func TestJSONDecodesIntoProtobufMessage(t *testing.T) {
	var out *pb.RetryPolicy
	if err := codec.Default.Decode(&pb.Payload{Encoding: codec.JSON, Data: []byte(`{"attempts":4}`)}, &out); err != nil || out.Attempts != 4 {
		t.Errorf("decoded %v, %v", out, err)
	}
}

func TestNilIsNullAndNullIsZero(t *testing.T) {
	var none *pb.RetryPolicy
	for _, v := range []any{nil, none} {
		if p := encode(t, v); p.Encoding != codec.Null || len(p.Data) > 0 {
			t.Errorf("nil of %T is %v", v, p)
		}
	}
	for _, p := range []*pb.Payload{nil, {Encoding: codec.Null}} {
		for _, c := range []codec.Codec{codec.Default, codec.Checked(reversed{})} {
			out := order{ID: "old"}
			msg := &pb.RetryPolicy{Attempts: 1}
			if err := errors.Join(c.Decode(p, &out), c.Decode(p, msg)); err != nil || out.ID != "" || msg.Attempts != 0 {
				t.Errorf("decoded %+v, %v, %v", out, msg, err)
			}
		}
	}
}

func TestWhatDoesNotFitIsRefusedWithTheReason(t *testing.T) {
	js := func(s string) *pb.Payload { return &pb.Payload{Encoding: codec.JSON, Data: []byte(s)} }
	msg := encode(t, &pb.RetryPolicy{})
	for name, c := range map[string]struct {
		p      *pb.Payload
		target any
		want   string
	}{
		"wrong type":        {js(`"x"`), new(int), "int"},
		"trailing data":     {js(`1 2`), new(int), "more data"},
		"cut off":           {js(`{"ID":`), new(order), "EOF"},
		"empty":             {js(``), new(order), "EOF"},
		"other message":     {msg, new(*pb.Timeouts), "engined.v1.Timeouts"},
		"message to struct": {msg, new(order), "not a protobuf message"},
		"damaged message":   {&pb.Payload{Encoding: codec.Proto, Type: msg.Type, Data: []byte{0xff}}, new(*pb.RetryPolicy), "engined.v1.RetryPolicy"},
		"unknown message":   {&pb.Payload{Encoding: codec.Proto, Type: "no.Such"}, new(any), "no.Such"},
		"unknown encoding":  {&pb.Payload{Encoding: "sealed"}, new(order), `"sealed"`},
		"no pointer":        {nil, order{}, "not a non-nil pointer"},
		"no target":         {nil, nil, "not a non-nil pointer"},
		"nil pointer":       {nil, (*order)(nil), "not a non-nil pointer"},
		"json to nil":       {js(`1`), (*order)(nil), "order"},
	} {
		err := codec.Default.Decode(c.p, c.target)
		var de *codec.DecodeError
		if !errors.As(err, &de) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a *DecodeError with %q", name, err, c.want)
		}
	}
}

func TestWhatHasNoEncodingIsRefused(t *testing.T) {
	for _, v := range []any{make(chan int), func() {}, math.NaN(), order{Any: make(chan int)}} {
		_, err := codec.Default.Encode(v)
		var ee *codec.EncodeError
		if !errors.As(err, &ee) {
			t.Errorf("%T: %v, want an *EncodeError", v, err)
		}
	}
}

func TestPayloadLimitIsExact(t *testing.T) {
	fits := strings.Repeat("x", codec.MaxPayload-2) // and two quotes
	if _, err := codec.Default.Encode(fits); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	for _, c := range []codec.Codec{codec.Default, codec.Checked(nil), codec.Checked(reversed{})} {
		_, err := c.Encode(fits + "x")
		var tl *codec.TooLargeError
		if !errors.As(err, &tl) || tl.Size != codec.MaxPayload+1 || tl.Limit != codec.MaxPayload {
			t.Errorf("above the limit with %T: %v", c, err)
		}
	}
}

// reversed is a user's codec.
type reversed struct{}

func (reversed) Encode(v any) (*pb.Payload, error) {
	if v == "no payload" {
		return nil, nil
	}
	p, err := codec.Default.Encode(v)
	if err != nil {
		return nil, err
	}
	return &pb.Payload{Encoding: "reversed", Data: reverse(p.Data)}, nil
}

func (reversed) Decode(p *pb.Payload, v any) error {
	return codec.Default.Decode(&pb.Payload{Encoding: codec.JSON, Data: reverse(p.Data)}, v)
}

func reverse(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		out[len(b)-1-i] = c
	}
	return out
}

func TestUsersCodecIsUsedAndChecked(t *testing.T) {
	c := codec.Checked(codec.Checked(reversed{}))
	p, err := c.Encode("abc")
	if err != nil || string(p.Data) != `"cba"` {
		t.Fatalf("encoded %v, %v", p, err)
	}
	var s string
	if err := c.Decode(p, &s); err != nil || s != "abc" {
		t.Errorf("decoded %q, %v", s, err)
	}
	var ee *codec.EncodeError
	if _, err := c.Encode("no payload"); !errors.As(err, &ee) {
		t.Errorf("a codec that returns nothing: %v", err)
	}
}

func FuzzDecodeNeverPanics(f *testing.F) {
	f.Add("json", []byte(`{"ID":"a"}`), "")
	f.Add("proto", []byte{8, 3}, "engined.v1.RetryPolicy")
	f.Add("null", []byte{}, "")
	f.Fuzz(func(t *testing.T, encoding string, data []byte, typ string) {
		p := &pb.Payload{Encoding: encoding, Data: data, Type: typ}
		for _, target := range []any{new(order), new(any), new(*pb.RetryPolicy), new(int)} {
			if err := codec.Default.Decode(p, target); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		}
	})
}
