package view

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/engined/engined/history"
	pb "github.com/engined/engined/proto/enginepb"
)

func TestTimesAreShort(t *testing.T) {
	for d, want := range map[time.Duration][4]string{
		0:                           {"0s", "+0s", "just now", "now"},
		-time.Second:                {"0s", "+0s", "just now", "now"},
		1234567:                     {"1.2ms", "+0.001s", "just now", "now"},
		756 * time.Microsecond:      {"756µs", "+756µs", "just now", "now"},
		1234 * time.Millisecond:     {"1.23s", "+1.234s", "1s ago", "in 1s"},
		time.Minute:                 {"1m", "+1m00.000s", "1m ago", "in 1m"},
		61500 * time.Millisecond:    {"1m2s", "+1m01.500s", "1m2s ago", "in 1m2s"},
		6 * time.Hour:               {"6h", "+6h00m00s", "6h ago", "in 6h"},
		6*time.Hour + 5*time.Minute: {"6h5m", "+6h05m00s", "6h5m ago", "in 6h5m"},
		72 * time.Hour:              {"3d", "+3d00h00m", "3d ago", "in 3d"},
		77 * time.Hour:              {"3d5h", "+3d05h00m", "3d5h ago", "in 3d5h"},
	} {
		if got := [4]string{span(d), offset(d), Ago(begin, at(d)), In(at(d), begin)}; got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// What is shown as a command line is read by a shell as it was meant.
func TestIDsAreQuotedForAShell(t *testing.T) {
	for s, want := range map[string]string{
		"order-1/a:b@c": "order-1/a:b@c", "": "''", "a b": "'a b'", "it's $HOME": `'it'\''s $HOME'`, "\x1b[31m'\\": `$'\x1b[31m\'\\'`, "ü": "'ü'",
	} {
		if got := Arg(s); got != want {
			t.Errorf("%q is %s, want %s", s, got, want)
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			continue
		}
		if out, err := exec.Command(bash, "-c", "printf %s "+Arg(s)).Output(); err != nil || string(out) != s {
			t.Errorf("a shell reads %s as %q, %v", Arg(s), out, err)
		}
	}
}

func TestWhatATerminalWouldObeyIsEscapedWithoutChangingTheValue(t *testing.T) {
	const harm = "\u009b31m \u202e \x7f"
	doc, err := json.Marshal(harm)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []json.RawMessage{
		PayloadJSON(&pb.Payload{Encoding: "json", Data: doc}), JSON(&pb.Payload{Encoding: "json", Data: []byte(`"` + harm + `"`)}),
	} {
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != harm || strings.ContainsAny(string(got), harm[:2]+"\u202e\x7f") {
			t.Errorf("%s is %q, %v", got, back, err)
		}
	}
	doc = With(With(JSON(&pb.RunRef{}), "a", json.RawMessage("1")), "b", json.RawMessage("[]"))
	if string(doc) != `{"a":1,"b":[]}` {
		t.Errorf("with two fields it is %s", doc)
	}
}

// A kind of event that is new must get its words here.
func TestEveryKindOfEventHasWords(t *testing.T) {
	body := (&pb.Event{}).ProtoReflect().Descriptor().Oneofs().ByName("body")
	for i := range body.Fields().Len() {
		e := &pb.Event{Id: 1}
		e.ProtoReflect().Mutable(body.Fields().Get(i))
		var l line
		if !l.outside(e) && !l.ends(e) && !l.undo(e) && !l.decision(e) && history.Kind(e) != "TimerCancelled" {
			t.Errorf("nothing is told of %s", history.Kind(e))
		}
	}
}
