package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/engined/engined/examples/saga/internal/fleet"
	"github.com/engined/engined/examples/saga/internal/orders"
	"github.com/engined/engined/examples/saga/internal/report"
	"github.com/engined/engined/examples/saga/internal/wire"
	pb "github.com/engined/engined/proto/enginepb"
)

// supervisor has the orders placed, strikes at the processes in the middle, and
// notes what becomes of the orders.
type supervisor struct {
	orders []orders.Order
	fleet  *fleet.Fleet
	dir    string
	show   *screen
	rand   *rand.Rand
	blows  []*blow

	mu     sync.Mutex
	placed map[string]bool
	ended  map[string]*ended
	// skipped counts the steps of the orders that another process took up.
	skipped int
	closed  *summary
	all     chan struct{} // closed when closed is set
}

// blow is something bad that happens to a process, more than once if it stands
// more than once among the blows.
type blow struct {
	report.Blow
	// strike does it, and returns which orders another process took up, if it is
	// not the process itself that says so.
	strike func(ctx context.Context) (*taken, error)
}

func newSupervisor(o options, dir string, f *fleet.Fleet, show *screen) *supervisor {
	return &supervisor{
		orders: o.file.Orders, fleet: f, dir: dir, show: show, rand: rand.New(rand.NewPCG(o.seed, 1)),
		placed: map[string]bool{}, ended: map[string]*ended{}, all: make(chan struct{}),
	}
}

// shopConfig is what every part of the shop has to know.
func (s *supervisor) shopConfig() shopConfig {
	c := shopConfig{URLs: map[wire.Service]string{}}
	for _, service := range wire.Services() {
		c.URLs[service] = s.fleet.URL(service)
	}
	return c
}

func (s *supervisor) path(name string) string { return filepath.Join(s.dir, name) }

var errAllEnded = errors.New("all orders have ended")

// strikeDuring lets work run to its end, and meanwhile the blows fall.
func (s *supervisor) strikeDuring(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	var striker sync.WaitGroup
	striker.Go(func() {
		if err := s.strikeAll(ctx); err != nil {
			stop(err)
		}
	})
	err := work(ctx)
	stop(errAllEnded)
	striker.Wait()
	return err
}

// The first blow falls when so many percent of the orders have ended, the last
// when so many have: neither at the very start, nor when hardly any is left.
const firstAt, lastAt = 8, 70

// strikeAll has the blows fall one after the other, while there are orders.
func (s *supervisor) strikeAll(ctx context.Context) error {
	for i, b := range s.blows {
		at := firstAt + (lastAt-firstAt)*i/max(1, len(s.blows)-1)
		if !s.reach(ctx, at) {
			return nil
		}
		n := s.underWay()
		if n == 0 {
			continue
		}
		b.N++
		s.show.line("%s, with %d orders under way", b.What, n)
		t, err := b.strike(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s.take(news{Taken: t})
	}
	return nil
}

// reach waits for some moment after so many percent of the orders have ended.
// It returns false when ctx ends before.
func (s *supervisor) reach(ctx context.Context, percent int) bool {
	for s.endedPercent() < percent {
		if !rest(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return rest(ctx, s.draw(0, 150*time.Millisecond))
}

// rest waits. It returns false when ctx ends before.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// draw draws a time. Only one goroutine at a time may.
func (s *supervisor) draw(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rand.Int64N(int64(to-from)))
}

func (s *supervisor) endedPercent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ended) * 100 / len(s.orders)
}

func (s *supervisor) underWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.placed) - len(s.ended)
}

// take notes what has happened. A process that was killed may say it again.
func (s *supervisor) take(n news) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case n.Placed != "":
		s.placed[n.Placed] = true
	case n.Ended != nil && s.ended[n.Ended.Order] == nil:
		s.placed[n.Ended.Order] = true
		s.ended[n.Ended.Order] = n.Ended
		s.show.order(len(s.ended), n.Ended)
	case n.Taken != nil && n.Taken.Orders > 0:
		s.skipped += n.Taken.Steps
		s.show.line("%d orders are taken up again; %d of their steps are done and not run again", n.Taken.Orders, n.Taken.Steps)
	case n.Closed != nil && s.closed == nil:
		s.closed = n.Closed
		close(s.all)
	}
}

// tell chooses the order whose history is told: one that was compensated if there
// is one already.
func (s *supervisor) tell() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if e := s.ended[o.ID]; e != nil && e.Undo == pb.UndoState_UNDO_STATE_COMPENSATED {
			return o.ID
		}
	}
	return s.orders[0].ID
}

// blowsDealt are the blows by their names, for the report.
func (s *supervisor) blowsDealt() []report.Blow {
	all := []report.Blow{{What: "a step was lost with its worker", N: int64(s.closed.Lost), Least: 1}}
	for i, b := range s.blows {
		if slices.Index(s.blows, b) == i {
			all = append(all, b.Blow)
		}
	}
	slices.SortFunc(all, func(a, b report.Blow) int { return strings.Compare(a.What, b.What) })
	return all
}

// outcomes are the engine's, for the report.
func (s *supervisor) outcomes() []report.Outcome {
	var all []report.Outcome
	for _, o := range s.orders {
		e := s.ended[o.ID]
		if e == nil {
			all = append(all, report.Outcome{Order: o.ID, Status: "running", Broken: true})
			continue
		}
		all = append(all, report.Outcome{
			Order: o.ID, Status: statusWord(e.Status), Undo: undoWord(e.Undo), Reason: e.Reason,
			Broken: e.Undo == pb.UndoState_UNDO_STATE_FAILED,
		})
	}
	return all
}
