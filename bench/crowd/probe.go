package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/engined/engined/bench/internal/target"
	"github.com/engined/engined/sdk/client"
)

// probe is an ordinary client beside the guests.
type probe struct{ took []time.Duration }

func (p *probe) runs() int { return len(p.took) }

// at is a percentile of the times that a run took.
func (p *probe) at(percent int) time.Duration {
	if len(p.took) == 0 {
		return 0
	}
	slices.Sort(p.took)
	return p.took[(len(p.took)-1)*percent/100].Round(10 * time.Microsecond)
}

// beside runs the probe until the guest has left, and for the span at least.
func beside(ctx context.Context, e *watched, c *client.Client, span time.Duration, visit func(context.Context, *watched, *client.Client) (string, error)) (string, *probe, error) {
	p := &probe{}
	e.memory.reset()
	until, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var said string
	var visited, probed error
	left := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		defer close(left)
		said, visited = visit(until, e, c)
	})
	both.Go(func() { e.watch(ctx, left, until.Done()) })
	over := func() bool {
		select {
		case <-left:
			return until.Err() != nil
		default:
			return false
		}
	}
	for probed == nil && !over() {
		began := time.Now()
		_, probed = client.Execute(ctx, c, Echo, "hello")
		p.took = append(p.took, time.Since(began))
	}
	if probed != nil {
		probed = fmt.Errorf("the probe's run %d: %w", p.runs(), probed)
	}
	cancel()
	both.Wait()
	return said, p, errors.Join(visited, probed)
}

// watched is the engine under test, with its memory.
type watched struct {
	*target.Process
	memory memory
}

// memory is the largest that was seen, in bytes.
type memory struct{ largest atomic.Int64 }

func (m *memory) reset() { m.largest.Store(0) }

func (e *watched) peak() int64 { return e.memory.largest.Load() >> 20 }

// watch samples the engine's memory until both are done.
func (e *watched) watch(ctx context.Context, left, span <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for left != nil || span != nil {
		select {
		case <-left:
			left = nil
		case <-span:
			span = nil
		case <-ctx.Done():
			return
		case <-tick.C:
			if n := residentBytes(e.Pid()); n > e.memory.largest.Load() {
				e.memory.largest.Store(n)
			}
		}
	}
}

// residentBytes reads VmRSS; 0 where the kernel does not tell.
func residentBytes(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
