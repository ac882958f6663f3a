package replay

import (
	"maps"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// origin says on whose stack a call was made.
type origin uint8

const (
	unknown origin = iota // the stack is too deep to tell
	coroutine
	stray
)

// caller is where a call of the SDK comes from.
type caller struct {
	source string // its place in user code
	origin origin
	of     tag // the run whose coroutine it is on; of a coroutine only
}

// frame is what is known of one return address.
type frame struct {
	source string // "shop.go:42" in user code, or empty
	base   bool   // it is Coroutine.main, the lowest frame of every coroutine
	digit  uint8  // of a run's tag, counted from 1
}

// Frames are looked up once an address, and there are as many as there are
// calls in the program's text. Readers of the map do not lock.
var frames atomic.Pointer[map[uintptr]frame]

// stackMax is how many frames are looked at. Workflow code calls the SDK from
// less deep.
const stackMax = 64

// callSite returns the place in user code from which the SDK was called, and on
// whose stack that was: a goroutine that workflow code started itself has no
// coroutine at its base.
func callSite() caller {
	var pcs [stackMax]uintptr
	n := runtime.Callers(3, pcs[:]) // not Callers, callSite, enter
	c := caller{}
	for _, pc := range pcs[:n] {
		if c.source = frameOf(pc).source; c.source != "" {
			break
		}
	}
	if n < len(pcs) {
		c.origin, c.of = baseOf(pcs[:n])
	}
	return c
}

// deepOrigin is for a stack that is too deep for callSite.
func deepOrigin() (origin, tag) {
	for size := 8 * stackMax; ; size *= 8 {
		pcs := make([]uintptr, size)
		if n := runtime.Callers(1, pcs); n < size {
			return baseOf(pcs[:n])
		}
	}
}

// baseOf reads the lowest frames of a stack. Below main there are iter's and the
// runtime's, above it are code (inlined or not) and the two digits.
func baseOf(pcs []uintptr) (origin, tag) {
	n := len(pcs)
	for i := n - 1; i >= max(0, n-6); i-- {
		if !frameOf(pcs[i]).base {
			continue
		}
		if i < 3 {
			return coroutine, 0
		}
		high, low := frameOf(pcs[i-2]).digit, frameOf(pcs[i-3]).digit
		return coroutine, tag(high-1)<<4 | tag(low-1)
	}
	return stray, 0
}

func frameOf(pc uintptr) frame {
	known := frames.Load()
	if known != nil {
		if f, ok := (*known)[pc]; ok {
			return f
		}
	}
	f := lookUp(pc)
	for {
		next := map[uintptr]frame{pc: f}
		if known != nil {
			maps.Copy(next, *known)
		}
		if frames.CompareAndSwap(known, &next) {
			return f
		}
		known = frames.Load()
	}
}

// fileMax keeps a source within history.MaxSource, whatever its file is called.
const fileMax = 200

const module = "github.com/engined/engined/"

// Frames that are not where the user called.
var ours = []string{
	module + "internal/replay.", module + "sdk/workflow.", module + "sdk/saga.",
	"runtime.", "iter.", "slices.", "maps.", "sync.",
}

func lookUp(pc uintptr) frame {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	isTest := strings.HasSuffix(f.File, "_test.go")
	for _, prefix := range ours {
		if strings.HasPrefix(f.Function, prefix) && !isTest {
			return frame{base: strings.HasSuffix(f.Function, "internal/replay.(*Coroutine).main"), digit: digitOf(f.Function)}
		}
	}
	if f.Function == "" {
		return frame{}
	}
	file := filepath.Base(f.File)
	file = strings.ToValidUTF8(file[:min(len(file), fileMax)], "_")
	return frame{source: file + ":" + strconv.Itoa(f.Line)}
}
