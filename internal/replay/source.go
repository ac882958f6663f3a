package replay

import (
	"maps"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// origin says whose stack a call was made on.
type origin uint8

const (
	unknown origin = iota // the stack is too deep to tell
	coroutine
	stray
)

// frame is what is known of one return address.
type frame struct {
	source string // "shop.go:42" in user code, or empty
	base   bool   // it is Coroutine.main, the lowest frame of every coroutine
}

// Frames are looked up once an address, and there are as many as there are
// calls in the program's text. Readers of the map do not lock.
var frames atomic.Pointer[map[uintptr]frame]

// stackMax is how many frames are looked at. Workflow code calls the SDK from
// less deep.
const stackMax = 64

// callSite returns the place in user code from which the SDK was called, and
// whether that was on a coroutine's stack: a goroutine that workflow code
// started itself has no coroutine at its base.
func callSite() (string, origin) {
	var pcs [stackMax]uintptr
	n := runtime.Callers(3, pcs[:]) // not Callers, callSite, enter
	source := ""
	for _, pc := range pcs[:n] {
		if source = frameOf(pc).source; source != "" {
			break
		}
	}
	if n == len(pcs) {
		return source, unknown
	}
	// Below main there are iter's and the runtime's frames.
	for i := n - 1; i >= max(0, n-6); i-- {
		if frameOf(pcs[i]).base {
			return source, coroutine
		}
	}
	return source, stray
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
			return frame{base: strings.HasSuffix(f.Function, "internal/replay.(*Coroutine).main")}
		}
	}
	if f.Function == "" {
		return frame{}
	}
	file := filepath.Base(f.File)
	file = strings.ToValidUTF8(file[:min(len(file), fileMax)], "_")
	return frame{source: file + ":" + strconv.Itoa(f.Line)}
}
