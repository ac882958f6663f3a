package history_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

func TestAnIDHasOneToAThousandBytesOfUTF8WithoutNUL(t *testing.T) {
	for _, good := range []string{"x", "order-1", strings.Repeat("x", 1000), strings.Repeat("é", 500), "a\nb", "🙂"} {
		if err := history.CheckID("the id", good); err != nil {
			t.Errorf("%.20q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":       "the id is empty",
		"\xff":   "the id is not valid UTF-8",
		"a\x00b": "the id contains a NUL byte",
	} {
		var name *history.NameError
		if err := history.CheckID("the id", bad); !errors.As(err, &name) || err.Error() != want {
			t.Errorf("%q: have %v, want %q as a *NameError", bad, err, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 1001), strings.Repeat("é", 501), strings.Repeat("\xff", 2000)} {
		var limit *history.LimitError
		if err := history.CheckID("the id", long); !errors.As(err, &limit) || limit.Have != len(long) || limit.Limit != 1000 {
			t.Errorf("%d bytes: have %v, want a *LimitError", len(long), err)
		}
	}
}

func TestNamesAreShorterThanIDs(t *testing.T) {
	if err := history.CheckName("the type", strings.Repeat("x", history.MaxName)); err != nil {
		t.Error(err)
	}
	var limit *history.LimitError
	if err := history.CheckName("the type", strings.Repeat("x", history.MaxName+1)); !errors.As(err, &limit) {
		t.Errorf("have %v, want a *LimitError", err)
	}
	if err := history.CheckRequestID(""); err == nil {
		t.Error("an empty request id is taken")
	}
}

func TestAPayloadOfTheLimitIsTakenAndOneByteMoreIsNot(t *testing.T) {
	if err := history.CheckPayload("the input", nil); err != nil {
		t.Error(err)
	}
	p := &pb.Payload{Encoding: "json", Data: make([]byte, history.MaxPayload)}
	if err := history.CheckPayload("the input", p); err != nil {
		t.Error(err)
	}
	p.Data = append(p.Data, 0)
	var limit *history.LimitError
	err := history.CheckPayload("the input", p)
	if !errors.As(err, &limit) || !strings.Contains(err.Error(), "2097153") || !strings.Contains(err.Error(), "2097152") {
		t.Errorf("have %v, want a *LimitError that names size and limit", err)
	}
	if err := history.CheckPayload("the input", &pb.Payload{Encoding: "\xff"}); err == nil {
		t.Error("an encoding that is not UTF-8 is taken")
	}
}
