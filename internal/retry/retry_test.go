package retry

import (
	"math"
	"testing"
	"time"
)

func TestCeilingDoublesUpToCapAndNeverOverflows(t *testing.T) {
	p := Policy{Base: time.Second, Cap: time.Minute}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60}
	for n, w := range want {
		if got := p.Ceiling(n); got != w*time.Second {
			t.Errorf("Ceiling(%d) = %v, want %v", n, got, w*time.Second)
		}
	}
	long := Policy{Base: time.Hour, Cap: math.MaxInt64}
	for _, n := range []int{0, 10, 22, 23, 64, 1000} {
		if got := long.Ceiling(n); got <= 0 {
			t.Errorf("Ceiling(%d) = %v with an endless cap, want a positive time", n, got)
		}
	}
	if got := (Policy{Base: time.Hour, Cap: time.Second}).Ceiling(0); got != time.Second {
		t.Errorf("a base above the cap waits %v, want the cap", got)
	}
}

func TestDelayStaysBelowItsCeiling(t *testing.T) {
	p := Policy{Base: time.Second, Cap: time.Minute}
	for n := range 12 {
		if lo, hi := p.Delay(n, 0), p.Delay(n, math.MaxUint64); lo != 0 || hi >= p.Ceiling(n) {
			t.Errorf("Delay(%d) spans %v..%v, want 0 to below %v", n, lo, hi, p.Ceiling(n))
		}
	}
}

func TestExhaustedCountsTheFirstTry(t *testing.T) {
	if !(Policy{Attempts: 1}).Exhausted(1) {
		t.Error("a policy of one attempt has another after the first")
	}
	if (Policy{Attempts: -1}).Exhausted(1 << 30) {
		t.Error("an endless policy ended")
	}
	if (Policy{}).Exhausted(DefaultAttempts-1) || !(Policy{}).Exhausted(DefaultAttempts) {
		t.Error("the zero policy does not have the default number of attempts")
	}
}
