package history_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

// Bytes that a disk or a peer made up never bring a process down: they are an
// error, or a list of events that can be validated and shown.
func FuzzDecode(f *testing.F) {
	paths, err := filepath.Glob(goldenDir + "/*.bin")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, some := range [][]broken{brokenFrames(), brokenOps(), brokenSagas()} {
		for _, b := range some {
			if data, err := history.Append(nil, b.list); err == nil {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := history.Decode(data)
		if err != nil {
			return
		}
		var invalid *history.InvalidError
		if err := history.Validate(events); err != nil && !errors.As(err, &invalid) {
			t.Errorf("%v is no *InvalidError", err)
		}
		for _, e := range events {
			checkLine(t, history.Line(e))
		}
		again, err := history.Append(nil, events)
		if err != nil {
			t.Fatalf("what was decoded is not encoded: %v", err)
		}
		back, err := history.Decode(again)
		if err != nil {
			t.Fatalf("what was encoded is not decoded: %v", err)
		}
		if !proto.Equal(&pb.EventBatch{Events: events}, &pb.EventBatch{Events: back}) {
			t.Errorf("%x changed on its way through", data)
		}
	})
}

func TestANewerFormatIsRefusedWithBothNumbers(t *testing.T) {
	data, err := proto.Marshal(&pb.EventBatch{Format: history.Format + 1})
	if err != nil {
		t.Fatal(err)
	}
	var newer *history.NewerFormatError
	if _, err := history.Decode(data); !errors.As(err, &newer) || newer.Have != history.Format+1 || newer.Want != history.Format {
		t.Errorf("have %v, want a *NewerFormatError", err)
	}
}
