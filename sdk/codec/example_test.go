package codec_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	pb "github.com/engined/engined/proto/enginepb"
	"github.com/engined/engined/sdk/client"
	"github.com/engined/engined/sdk/codec"
	"github.com/engined/engined/sdk/sdktest"
	"github.com/engined/engined/sdk/workflow"
	"github.com/engined/engined/worker"
)

// Zipped is codec.Default, and small.
type Zipped struct{}

// Encode zips the JSON that the default makes of v.
func (Zipped) Encode(v any) (*pb.Payload, error) {
	p, err := codec.Default.Encode(v)
	if err != nil || p.Encoding != codec.JSON {
		return p, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(p.Data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return &pb.Payload{Encoding: "json+gzip", Data: b.Bytes()}, nil
}

// Decode also reads what was written without it, as by the command line.
func (Zipped) Decode(p *pb.Payload, v any) error {
	if p.Encoding != "json+gzip" {
		return codec.Default.Decode(p, v)
	}
	z, err := gzip.NewReader(bytes.NewReader(p.Data))
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(z, 64<<20)) // nobody knows who zipped it
	if err != nil {
		return err
	}
	return codec.Default.Decode(&pb.Payload{Encoding: codec.JSON, Data: data}, v)
}

func shout(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil }

func shouting(ctx workflow.Context, s string) (string, error) { return workflow.Do(ctx, shout, s) }

// A codec of one's own is given to the client and to the worker. The history then
// holds what it wrote, so whoever reads it needs the codec, too.
func Example() {
	synctest.Test(new(testing.T), func(t *testing.T) {
		env := sdktest.New(t, sdktest.Options{Worker: worker.Options{Codec: Zipped{}}})
		worker.Workflow(env.Worker, shouting)
		worker.Activity(env.Worker, shout)
		env.Start()
		c := client.New(env.Engine, client.Options{Codec: Zipped{}})

		long := strings.Repeat("la", 1000)
		out, err := client.Execute(t.Context(), c, shouting, long, client.ID("song"))
		fmt.Println(len(out), out[:4], err)

		for e, err := range client.Get[string](c, "song", "").History(t.Context()) {
			if err != nil {
				fmt.Println(err)
				return
			}
			if s := e.GetWorkflowStarted(); s != nil {
				fmt.Println(s.Input.Encoding, len(s.Input.Data) < 100)
			}
		}
	})
	// Output:
	// 2000 LALA <nil>
	// json+gzip true
}

// Numbers keep every digit, also where no type is known.
func Example_default() {
	p, err := codec.Default.Encode(map[string]any{"id": 9007199254740993, "note": "<b> & co"})
	fmt.Println(p.Encoding, string(p.Data), err)

	var v any
	err = codec.Default.Decode(p, &v)
	fmt.Printf("%v %T %v\n", v.(map[string]any)["id"], v.(map[string]any)["id"], err)
	// Output:
	// json {"id":9007199254740993,"note":"<b> & co"} <nil>
	// 9007199254740993 json.Number <nil>
}
