package replay

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// A stack tells whose it is. Go has no name for a goroutine that is cheap to ask
// for, and a call must know on which run's stack it is made: a context that has
// got from one run into another would be used there as if it belonged, and two
// goroutines would work on one run. So between Coroutine.main and user code stand
// two frames, of functions that differ in name only: each is a digit, and together
// they are the run's tag, which callSite reads with the rest of the stack.

// tag tells apart the runs of this process. It comes again after 254 others: to be
// taken for each other, two runs must have the same tag, and share a context by
// mistake, and be folded in the same moment.
type tag uint8

var tags atomic.Uint32

// newTag never returns 0, which is that of no run.
func newTag() tag { return tag(1 + tags.Add(1)%255) }

// code runs the coroutine's code below the digits of its run's tag.
func (co *Coroutine) code() {
	t := co.run.tag
	highs[t>>4](lows[t&15], co.fn, Context{co: co, scope: co.base})
}

// digitOf reads the digit in the name of one of the functions below, counted from
// 1; others have none.
func digitOf(function string) uint8 {
	name, ours := strings.CutPrefix(function, module+"internal/replay.")
	hex, isHigh := strings.CutPrefix(name, "high")
	if !isHigh {
		hex = strings.TrimPrefix(name, "low")
	}
	n, err := strconv.ParseUint(hex, 16, 4)
	if !ours || err != nil {
		return 0
	}
	return uint8(n) + 1
}

type (
	high func(l low, fn func(Context), ctx Context)
	low  func(fn func(Context), ctx Context)
)

var highs = [16]high{
	high0, high1, high2, high3, high4, high5, high6, high7,
	high8, high9, highA, highB, highC, highD, highE, highF,
}

var lows = [16]low{
	low0, low1, low2, low3, low4, low5, low6, low7,
	low8, low9, lowA, lowB, lowC, lowD, lowE, lowF,
}

func high0(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high1(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high2(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high3(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high4(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high5(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high6(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high7(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high8(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func high9(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func highA(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func highB(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func highC(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func highD(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func highE(l low, fn func(Context), ctx Context) { l(fn, ctx) }
func highF(l low, fn func(Context), ctx Context) { l(fn, ctx) }

func low0(fn func(Context), ctx Context) { fn(ctx) }
func low1(fn func(Context), ctx Context) { fn(ctx) }
func low2(fn func(Context), ctx Context) { fn(ctx) }
func low3(fn func(Context), ctx Context) { fn(ctx) }
func low4(fn func(Context), ctx Context) { fn(ctx) }
func low5(fn func(Context), ctx Context) { fn(ctx) }
func low6(fn func(Context), ctx Context) { fn(ctx) }
func low7(fn func(Context), ctx Context) { fn(ctx) }
func low8(fn func(Context), ctx Context) { fn(ctx) }
func low9(fn func(Context), ctx Context) { fn(ctx) }
func lowA(fn func(Context), ctx Context) { fn(ctx) }
func lowB(fn func(Context), ctx Context) { fn(ctx) }
func lowC(fn func(Context), ctx Context) { fn(ctx) }
func lowD(fn func(Context), ctx Context) { fn(ctx) }
func lowE(fn func(Context), ctx Context) { fn(ctx) }
func lowF(fn func(Context), ctx Context) { fn(ctx) }
