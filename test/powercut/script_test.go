package powercut

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// each calls do for 0..n-1 on all processors, up to the first that fails.
func each(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		next int
		err  error
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
	if err != nil {
		t.Fatal(err)
	}
}

func newScript(t *testing.T) *Script {
	t.Helper()
	s, err := NewScript(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

func TestPowerCutAtEveryOperationOfAScript(t *testing.T) {
	begin := time.Now()
	c := &Cuts{Script: newScript(t)}
	ops := 0
	for _, p := range c.Parts {
		ops += p.Ops
	}
	t.Logf("%d calls, %d operations; planned in %v", c.Calls(), ops, time.Since(begin))
	begin = time.Now()
	each(t, len(c.Parts), func(i int) error { return c.Part(t.Context(), c.Parts[i]) })
	t.Logf("%v\n%v", time.Since(begin), &c.Tally)
}

func TestAStoreOnADeadDiskKeepsItsWord(t *testing.T) {
	c := &Cuts{Script: newScript(t)}
	begin := time.Now()
	var cases []func() error
	for _, p := range c.Parts {
		for n := 1; n <= p.Ops; n++ {
			cases = append(cases, func() error { return c.Dead(t.Context(), p, n) })
		}
	}
	each(t, len(cases), func(i int) error { return cases[i]() })
	t.Logf("%v\n%v", time.Since(begin), &c.Tally)
}

func TestASyncThatFailsOnceEndsTheStore(t *testing.T) {
	c := &Cuts{Script: newScript(t)}
	begin := time.Now()
	each(t, len(c.Parts), func(i int) error {
		for n := 1; n <= c.Parts[i].Ops; n++ {
			at, err := c.SyncFails(t.Context(), c.Parts[i], n)
			if err != nil {
				return err
			}
			n = at
		}
		return nil
	})
	t.Logf("%v\n%v", time.Since(begin), &c.Tally)
}
