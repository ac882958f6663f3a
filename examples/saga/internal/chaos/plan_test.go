package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/engined/engined/examples/saga/internal/chaos"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/wire"
)

var endpoints = []string{wire.Charge, wire.Reserve, wire.Ship, wire.Send, wire.Refund, wire.Release, wire.Cancel}

// first counts the faults that first tries meet among the first n keys.
func first(p chaos.Plan, endpoint string, n int64) map[chaos.Kind]int {
	seen := map[chaos.Kind]int{}
	for i := range n {
		seen[p.At(chaos.Call{Endpoint: endpoint, Ordinal: i + 1, Try: 1}).Kind]++
	}
	return seen
}

func TestEveryWantedFaultMeetsSomeChargeWhateverTheSeed(t *testing.T) {
	// Every order is charged first, so even the shortest file gets them all.
	if chaos.Horizon(wire.Charge) > orders.Min {
		t.Fatalf("the horizon of charges is %d, a file may have only %d orders", chaos.Horizon(wire.Charge), orders.Min)
	}
	for seed := range uint64(200) {
		seen := first(chaos.Plan{Seed: seed}, wire.Charge, chaos.Horizon(wire.Charge))
		for _, k := range chaos.Wanted() {
			if seen[k] != 1 {
				t.Errorf("seed %d: %q is met by %d charges", seed, k, seen[k])
			}
		}
	}
}

func TestEveryBlockHasEachOfItsFaults(t *testing.T) {
	for seed := range uint64(200) {
		for _, e := range endpoints {
			size := chaos.Horizon(e)
			want := min(6, int(size))
			seen := first(chaos.Plan{Seed: seed}, e, 3*size)
			delete(seen, chaos.None)
			delete(seen, chaos.Refuse)
			delete(seen, chaos.LateAfterUndo)
			total := 0
			for k, n := range seen {
				total += n
				if size >= 6 && n != 3 {
					t.Errorf("seed %d: three blocks of %s have %q %d times", seed, e, k, n)
				}
			}
			if total != 3*want {
				t.Errorf("seed %d: three blocks of %s have %d faults, not %d", seed, e, total, 3*want)
			}
		}
	}
}

func TestAPlanIsAFunctionOfItsSeed(t *testing.T) {
	all := func(seed uint64) (faults []chaos.Fault) {
		for _, e := range endpoints {
			for i := range int64(60) {
				for try := range int64(5) {
					faults = append(faults, chaos.Plan{Seed: seed}.At(chaos.Call{Endpoint: e, Ordinal: i, Try: try + 1}))
				}
			}
		}
		return faults
	}
	if !slices.Equal(all(7), all(7)) {
		t.Error("the same seed gave two plans")
	}
	for seed := range uint64(50) {
		if slices.Equal(all(seed), all(seed+1)) {
			t.Errorf("seeds %d and %d have the same plan", seed, seed+1)
		}
	}
}

func TestAKeyThatIsTriedOftenEnoughGetsThrough(t *testing.T) {
	for seed := range uint64(200) {
		for _, e := range endpoints {
			for i := range int64(80) {
				fate := chaos.Plan{Seed: seed}.At(chaos.Call{Endpoint: e, Ordinal: i + 1, Try: 1}).Kind
				got := chaos.Plan{Seed: seed}.At(chaos.Call{Endpoint: e, Ordinal: i + 1, Try: 4}).Kind
				lasting := fate == chaos.Refuse || fate == chaos.LateAfterUndo
				if lasting && got != fate || !lasting && got != chaos.None {
					t.Fatalf("seed %d: %s %d meets %q first and %q in the end", seed, e, i+1, fate, got)
				}
				if lasting && (e == wire.Send || e == wire.Refund || e == wire.Release || e == wire.Cancel) {
					t.Fatalf("seed %d: %s %d can never succeed", seed, e, i+1)
				}
			}
		}
	}
}

func TestDelaysStayInTheirBounds(t *testing.T) {
	for seed := range uint64(200) {
		for i := range int64(40) {
			f := chaos.Plan{Seed: seed}.At(chaos.Call{Endpoint: wire.Reserve, Ordinal: i + 1, Try: 1})
			low, high := time.Duration(0), time.Duration(1)
			switch f.Kind {
			case chaos.Slow:
				low, high = 20*time.Millisecond, 400*time.Millisecond
			case chaos.Late:
				low, high = 300*time.Millisecond, 1500*time.Millisecond
			}
			if f.Delay < low || f.Delay >= high {
				t.Errorf("seed %d: %q takes %v", seed, f.Kind, f.Delay)
			}
		}
	}
}

func TestCallsWithoutAnOrdinalMeetNoFaults(t *testing.T) {
	for _, c := range []chaos.Call{{Endpoint: wire.Charge, Try: 1}, {Endpoint: "other", Ordinal: 1, Try: 1}} {
		if f := (chaos.Plan{Seed: 1}).At(c); f != (chaos.Fault{}) {
			t.Errorf("%+v meets %+v", c, f)
		}
	}
}
