package powercut

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// each calls do for 0..n-1 on all processors, up to the first that fails.
func each(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	if err := tryEach(n, do); err != nil {
		t.Fatal(err)
	}
}

func tryEach(n int, do func(i int) error) (err error) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		next int
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := err != nil || i >= n
				mu.Unlock()
				if stop {
					return
				}
				if e := do(i); e != nil {
					mu.Lock()
					if err == nil {
						err = fmt.Errorf("case %d: %w", i, e)
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return err
}

// forScripts runs a test on each script.
func forScripts(t *testing.T, test func(t *testing.T, c *Cuts)) {
	for i := range *scripts {
		t.Run(fmt.Sprintf("script %d", i+1), func(t *testing.T) {
			s, err := NewScript(t.Context(), uint64(i+1))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			ops := 0
			for _, p := range s.Parts {
				ops += p.Ops
			}
			if s.Calls() < 300 {
				t.Fatalf("the script has only %d calls", s.Calls())
			}
			begin := time.Now()
			c := &Cuts{Script: s, Thorough: *thorough}
			test(t, c)
			t.Logf("%d calls, %d operations, %v\n%v", s.Calls(), ops, time.Since(begin).Round(time.Second), &c.Tally)
		})
	}
}

func TestPowerCutAtEveryOperation(t *testing.T) {
	forScripts(t, func(t *testing.T, c *Cuts) {
		each(t, len(c.Parts), func(i int) error { return c.Part(t.Context(), c.Parts[i]) })
		c.atLeast(t, map[string]int{"cuts: lost": 4500, "cuts: whole": 4500, "cuts: torn": 4500, "kills": 500, "cuts in open": 300,
			"cuts in close": 300, "cuts in fence": 300, "second cuts, while opening": 1000,
			"cuts after which an unanswered call stood": 500, "syncs that fail, after a kill": 100})
	})
}

func TestStoreOnADeadDiskKeepsItsWord(t *testing.T) {
	forScripts(t, func(t *testing.T, c *Cuts) {
		var cases []func() error
		for _, p := range c.Parts {
			for n := 1; n <= p.Ops; n++ {
				cases = append(cases, func() error { return c.Dead(t.Context(), p, n) })
			}
		}
		each(t, len(cases), func(i int) error { return cases[i]() })
		c.atLeast(t, map[string]int{"dead disks": len(cases), "dead disks: commit said unavailable": 50, "dead disks: commit said done": 100})
	})
}

func TestSyncThatFailsOnceEndsTheStore(t *testing.T) {
	forScripts(t, func(t *testing.T, c *Cuts) {
		each(t, len(c.Parts), func(i int) error { return c.allSyncs(t.Context(), c.Parts[i]) })
		c.atLeast(t, map[string]int{"syncs that fail": 400, "syncs that fail: commit said fatal": 200, "syncs that fail: open said unknown": 30})
	})
}

// atLeast fails a run that has hardly met what it is for.
func (t *Tally) atLeast(tt *testing.T, want map[string]int) {
	tt.Helper()
	for what, n := range want {
		if got := t.Get(what); got < n {
			tt.Errorf("void: %s: %d, want at least %d", what, got, n)
		}
	}
}

func TestCutThatNeverHappensIsVoid(t *testing.T) {
	s, err := NewScript(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	c := &Cuts{Script: s}
	p := s.Parts[0]
	if err := c.Dead(t.Context(), p, p.Ops+1); !errors.Is(err, ErrVoid) {
		t.Errorf("a cut behind the last operation: %v, want void", err)
	}
	short := *p
	short.Ops++
	if err := c.Part(t.Context(), &short); !errors.Is(err, ErrVoid) {
		t.Errorf("a part with fewer operations than it should have: %v, want void", err)
	}
}
