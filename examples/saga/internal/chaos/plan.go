package chaos

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/engined/engined/examples/saga/internal/wire"
)

// Plan decides the faults of a run. It is a pure function of its seed. The zero
// Plan is that of seed 0; a service without a plan has no faults.
type Plan struct{ Seed uint64 }

// Call names one arrival of a call at a service.
type Call struct {
	Endpoint string
	// Ordinal numbers the keys of an endpoint in the order of their first arrival,
	// from 1. It stands for the key in the plan, since keys are known only when a
	// run is under way; ordinal 0 meets no faults.
	Ordinal int64
	// Try numbers the arrivals under one key, from 1.
	Try int64
}

// Fault is what meets one call.
type Fault struct {
	Kind Kind
	// Delay is how long a Slow call takes, or a Late one is held back.
	Delay time.Duration
}

// Bounds of the delays.
const (
	slowMin, slowMax = 20 * time.Millisecond, 400 * time.Millisecond
	lateMin, lateMax = 300 * time.Millisecond, 1500 * time.Millisecond
)

// harmless faults leave the key's answer what it is, also of an undo or a mail.
var harmless = []Kind{Slow, LoseRequest, DieBefore, LoseAnswer, DieAfter, Late}

// block says how the faults of an endpoint are dealt: among each so many keys,
// every kind is met by exactly one. Faults that end a step are in the first
// block only; with more of them hardly an order would be shipped.
type block struct {
	size  int64
	first []Kind
}

var blocks = map[string]block{
	wire.Charge:  {24, append(slices.Clone(harmless), Refuse, LateAfterUndo)},
	wire.Reserve: {40, append(slices.Clone(harmless), Refuse, LateAfterUndo)},
	wire.Ship:    {16, append(slices.Clone(harmless), Refuse, LateAfterUndo)},
	wire.Send:    {12, harmless},
	wire.Refund:  {10, harmless},
	wire.Release: {14, harmless},
	wire.Cancel:  {4, harmless},
}

// Horizon is the number of keys of an endpoint after which it has met every
// fault that the plan has for it, whatever the seed.
func Horizon(endpoint string) int64 { return blocks[endpoint].size }

// At is the fault that the plan has for a call.
func (p Plan) At(c Call) Fault {
	b, ok := blocks[c.Endpoint]
	if !ok || c.Ordinal < 1 {
		return Fault{}
	}
	number, place := (c.Ordinal-1)/b.size, (c.Ordinal-1)%b.size
	kind := p.deal(c.Endpoint, b, number)[place]
	switch {
	case kind == Refuse || kind == LateAfterUndo:
		// They are the key's fate, not one call's.
	case c.Try > 1:
		kind = p.again(c)
	}
	return Fault{Kind: kind, Delay: p.delay(kind, c)}
}

// deal shuffles a block's faults over its places.
func (p Plan) deal(endpoint string, b block, number int64) []Kind {
	kinds := harmless
	if number == 0 {
		kinds = b.first
	}
	r := p.random("deal", endpoint, number)
	kinds = slices.Clone(kinds)
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	places := make([]Kind, b.size)
	copy(places, kinds)
	r.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	return places
}

// again are the faults of later tries: few, none that ends the process, and none
// from the fourth on, so that a key that is tried often enough gets through.
func (p Plan) again(c Call) Kind {
	if c.Try > 3 {
		return None
	}
	switch p.random("again", c.Endpoint, c.Ordinal, c.Try).IntN(10) {
	case 0:
		return Slow
	case 1:
		return LoseRequest
	case 2:
		return LoseAnswer
	default:
		return None
	}
}

func (p Plan) delay(k Kind, c Call) time.Duration {
	r := p.random("delay", c.Endpoint, c.Ordinal, c.Try)
	switch k {
	case Slow:
		return slowMin + time.Duration(r.Int64N(int64(slowMax-slowMin)))
	case Late:
		return lateMin + time.Duration(r.Int64N(int64(lateMax-lateMin)))
	default:
		return 0
	}
}

// random is a source of its own for each question, so that the answer to one
// does not depend on which others were asked before.
func (p Plan) random(what, endpoint string, numbers ...int64) *rand.Rand {
	h := fnv.New64a()
	// Writing to a hash never fails.
	_, _ = h.Write([]byte(what + " " + endpoint))
	for _, n := range numbers {
		_, _ = h.Write([]byte(" " + strconv.FormatInt(n, 10)))
	}
	return rand.New(rand.NewPCG(p.Seed, h.Sum64()))
}
