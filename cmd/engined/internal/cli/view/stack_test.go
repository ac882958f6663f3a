package view

import (
	"strings"
	"testing"

	pb "github.com/engined/engined/proto/enginepb"
)

// panicked is what a worker records of a panic within strings.Repeat.
const panicked = `goroutine 41 [running]:
runtime/debug.Stack()
	/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
github.com/engined/engined/internal/replay.(*coroutine).main.func1()
	/src/engined/internal/replay/coroutine.go:90 +0x11d
panic({0x7a2f20?, 0xc0001a2030?})
	/usr/local/go/src/runtime/panic.go:860 +0x132
strings.Repeat({0x7a2f20, 0x1}, 0xffffffffffffffff)
	/usr/local/go/src/strings/strings.go:624 +0x5f
example.com/shop/internal/price.Of(...)
	/home/ada/shop/internal/price/price.go:16
example.com/shop.PlaceOrder({0x9d1f40, 0xc0001b0000}, {0xc00001c0a0, 0x3})
	/home/ada/shop/shop.go:33 +0x1c5
created by github.com/engined/engined/internal/replay.(*run).begin in goroutine 7
	/src/engined/internal/replay/coroutine.go:40 +0x9c
`

func TestAPanicIsToldWithThePlaceInTheUsersCode(t *testing.T) {
	none, _, _ := strings.Cut(panicked, "example.com")
	trimmed := strings.NewReplacer("/usr/local/go/src/", "", "/home/ada/", "example.com/", "strings.Repeat", "runtime.over").Replace(panicked)
	for name, x := range map[string]struct{ stack, at string }{
		"in a user's package":       {panicked, "price.go:16"},
		"of a build with -trimpath": {trimmed, "price.go:16"},
		"in no user's code":         {none, ""},
		"none":                      {"", ""},
		"no stack":                  {"one\n\ttwo\n\tthree:x\n", ""},
		"that means harm":           {"main.f()\n\t/a/\x1b[31m.go:1\n", `\x1b[31m.go:1`},
	} {
		if got := strings.TrimPrefix(where(&pb.Failure{Stack: x.stack}), " at "); got != x.at {
			t.Errorf("a stack %s: %q, want %q", name, got, x.at)
		}
	}
	l := line{}
	l.failure(&pb.Failure{Message: "boom", Stack: panicked})
	if got := strings.Join(l, " "); got != "error=boom at price.go:16" {
		t.Errorf("an event's failure: %q", got)
	}
	if got := failure(&pb.Failure{Message: "boom", Stack: panicked}); got != ": boom at price.go:16" {
		t.Errorf("an attempt's failure: %q", got)
	}
	var b strings.Builder
	p := printer{w: &b}
	p.hold(&pb.Hold{Kind: pb.HoldKind_HOLD_KIND_STUCK, Reason: "the code panicked: boom", Failure: &pb.Failure{Stack: panicked}}, 1)
	p.failure(&pb.Failure{Message: "lost", Stack: panicked}, "  ")
	if !strings.Contains(b.String(), "  lost at price.go:16\n") || !strings.Contains(b.String(), "the code panicked: boom at price.go:16\n") {
		t.Errorf("a hold: %q", b.String())
	}
}
