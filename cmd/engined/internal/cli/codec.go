package cli

import (
	"encoding/json"
	"fmt"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// rawCodec passes JSON on byte for byte, and never looks into a result.
type rawCodec struct{}

func (rawCodec) Encode(v any) (*pb.Payload, error) {
	data, ok := v.(json.RawMessage)
	if !ok {
		return nil, fmt.Errorf("encode a %T: only JSON text is passed on", v)
	}
	p := &pb.Payload{Encoding: "json", Data: data}
	if len(data) == 0 {
		p = &pb.Payload{Encoding: "null"}
	}
	return p, history.CheckPayload("the input", p)
}

func (rawCodec) Decode(*pb.Payload, any) error { return nil }
