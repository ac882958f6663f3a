package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/engined/engined/engine/machine"
	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/internal/clock"
)

// shard drives one machine.Shard: it takes inputs from its mailbox, steps the
// machine, and keeps the open writes for the committer.
type shard struct {
	e   *Engine
	id  store.ShardID
	box *mailbox[item]

	// Owned by the shard's goroutine.
	m       *machine.Shard
	timers  timers
	horizon int64  // wake-ups up to here are in timers, or being read
	held    []item // what came while the shard was being loaded again
	retry   int    // how many runs must be in memory before idle ones are looked for

	// mu is held for a turn of steps, and by the committer while it takes
	// writes; never while anything blocks.
	mu      sync.Mutex
	leased  store.Lease // the committer's
	worn    bool        // it has asked for another lease, and its goroutine alone knows
	broken  bool        // fenced off; until the load that follows, nothing is stepped
	open    map[store.RunNo]*write
	last    map[store.RunNo]*write // the newest write taken of each run
	opened  []*write               // all open writes, as they were opened
	stale   []*write               // changed in this turn, still to be encoded
	trouble trouble
}

// item is what a shard's mailbox holds: an input, or one of the shard's own
// controls.
type item struct {
	in machine.Input
	// of, when set, is the machine that asked for this answer; one that is
	// not there any more gets none.
	of *machine.Shard
	// lease begins a new load.
	lease *store.Lease
	// wakes is a page of due rows.
	wakes []store.Wake
}

// turn bounds the steps that are made before the committer may take writes.
const turn = 128

func newShard(e *Engine, id store.ShardID) *shard {
	return &shard{
		e: e, id: id, box: newMailbox[item](), broken: true,
		open: map[store.RunNo]*write{}, last: map[store.RunNo]*write{}, trouble: newTrouble(),
	}
}

// run is the loop: take inputs, step, hand the writes over, wait.
func (s *shard) run(ctx context.Context) error {
	for {
		items := s.box.take()
		for len(items) > 0 {
			n := min(len(items), turn)
			s.turn(items[:n])
			items = items[n:]
		}
		s.fire()
		s.tidy()
		if s.box.drained() {
			return nil
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// wait sleeps until something comes or is due.
func (s *shard) wait(ctx context.Context) error {
	// The next window is read in time, however far the first timer in memory is.
	at := s.horizon - int64(scanAhead)
	if next := s.timers.next(); next > 0 {
		at = min(at, next)
	}
	if s.e.clock.Wait(ctx, max(at, 1), s.box.ready, nil, nil) == clock.Ended {
		return context.Cause(ctx)
	}
	return nil
}

// turn makes a bounded number of steps and encodes what they changed.
func (s *shard) turn(items []item) {
	s.mu.Lock()
	defer s.e.committer.wake()
	defer s.mu.Unlock()
	for _, it := range items {
		switch {
		case it.lease != nil:
			s.begin(*it.lease)
		case s.broken:
			s.held = append(s.held, it)
		case it.of != nil && it.of != s.m:
			// An answer to a machine that is gone.
		case it.wakes != nil:
			s.scanned(it.wakes)
		default:
			s.step(it.in)
		}
	}
	s.seal()
}

func (s *shard) step(in machine.Input) {
	s.apply(s.m.Step(s.e.clock.Now(), in))
}

// apply carries out what a step asks for.
func (s *shard) apply(out *machine.Output) {
	for _, c := range out.Changes {
		for _, e := range c.Del {
			s.timers.drop(c.Run.Row.Run, e.Op)
		}
		s.merge(c)
	}
	for i := range out.Sends {
		s.e.workers.send(&out.Sends[i])
	}
	for _, l := range out.Loads {
		s.e.loader.rows(s, s.m, l)
	}
	for _, w := range out.Wakes {
		if !w.Stored || w.At <= s.horizon {
			s.timers.set(w)
		}
	}
	if out.Exhausted && !s.worn {
		s.worn = true // once a lease
		s.e.committer.wear(s.id)
	}
	for _, o := range out.Outcomes {
		s.e.counters.outcome(o)
	}
	for _, a := range out.Acks {
		s.e.workers.ack(a)
	}
	for _, r := range out.Replies {
		answer(r)
	}
}

// merge puts a change into the run's open write.
func (s *shard) merge(c *machine.Change) {
	no := c.Run.Row.Run
	s.notice(c.Run)
	w := s.open[no]
	if w == nil {
		if !c.Touched && s.settled(no) && !s.e.shared {
			s.releaseAll(c)
			return
		}
		if !c.Touched && len(c.After) == 0 && len(c.Acks) == 0 {
			return // a position: some later write takes it along
		}
		w = &write{shard: s, of: s.m, run: c.Run, born: s.e.clock.Now()}
		s.open[no] = w
		s.opened = append(s.opened, w)
	}
	w.add(c)
	if w.touched && !w.stale {
		w.stale = true
		s.stale = append(s.stale, w)
	}
	w.urgent = w.urgent || len(w.after) > 0
}

// settled says that all there is of the run is durable.
func (s *shard) settled(no store.RunNo) bool {
	w := s.last[no]
	return s.open[no] == nil && (w == nil || w.done.Load())
}

// releaseAll lets effects out that rest on nothing which is still to be written:
// reads are served also while the database cannot write.
func (s *shard) releaseAll(c *machine.Change) {
	for _, eff := range c.After {
		s.e.release(s, s.m, eff)
	}
	for _, a := range c.Acks {
		s.e.workers.ack(a)
	}
}

// seal encodes the writes that this turn changed.
func (s *shard) seal() {
	for len(s.stale) > 0 {
		w := s.stale[0]
		s.stale = s.stale[1:]
		w.stale = false
		if w.dropped {
			continue
		}
		if err := w.encode(); err != nil {
			// Rows that cannot be encoded are no state that may go on.
			s.discard(w, err)
			s.step(&machine.Refused{Run: w.run.Row.Run, Of: w.run, Reason: err.Error()})
		}
	}
}

// fire steps what is due, and looks further ahead in time.
func (s *shard) fire() {
	now := s.e.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return
	}
	fired := false
	for w, ok := s.timers.due(now); ok; w, ok = s.timers.due(now) {
		s.step(&machine.Woken{Run: w.Run, Op: w.Op})
		fired = true
	}
	if fired {
		s.seal()
		s.e.committer.wake()
	}
	if now >= s.horizon-int64(scanAhead) {
		s.scan(now)
	}
}

// begin starts over under a new lease: nothing in memory, a new incarnation,
// and every effect derived again from the rows.
func (s *shard) begin(l store.Lease) {
	s.m = machine.NewShard(machine.Config{
		Lease: l, Incarnation: s.e.random(), Seed: s.e.random(),
		Desk: s.e.desk, Grace: int64(s.e.cfg.ReclaimGrace), RestartGrace: int64(s.e.cfg.RestartGrace),
		Orphans: s.e.cfg.Alone && s.m == nil,
	})
	s.broken, s.worn = false, false
	s.trouble = newTrouble()
	s.timers = timers{}
	s.e.desk.reset(s.id)
	s.horizon = 0
	s.scan(s.e.clock.Now())
	held := s.held
	s.held = nil
	for _, it := range held {
		if it.of == nil {
			s.step(it.in)
		}
	}
}

// scanWindow is how far ahead wake-ups are kept in memory, scanAhead how long
// before its end the next window is read.
const (
	scanWindow = time.Hour
	scanAhead  = 15 * time.Minute
	scanPage   = 1000
)

// scan reads the wake-ups of the next window. The horizon moves first, so that
// what is decided while the scan reads is put in by the step; what was decided
// before and is not written yet is still in memory. Found twice is one.
func (s *shard) scan(now int64) {
	from := s.horizon
	s.horizon = now + int64(scanWindow)
	for _, w := range s.m.Wakes(s.horizon) {
		if w.At > from {
			s.timers.add(w)
		}
	}
	after := store.Wake{At: from, Run: maxRun}
	if from == 0 {
		after = store.Wake{} // with the rows that are always in memory
	}
	s.e.loader.due(s, s.m, after, s.horizon)
}

const maxRun = store.RunNo(1<<63 - 1)

// scanned takes a page of due rows: work in hand now, the rest at its time.
func (s *shard) scanned(wakes []store.Wake) {
	for _, w := range wakes {
		if w.At == 0 {
			s.step(&machine.Woken{Run: w.Run, Op: w.Op})
			continue
		}
		s.timers.add(machine.Wake{At: w.At, Run: w.Run, Op: w.Op})
	}
}

// discard gives up a write: whoever waits is told. Workers whose messages are
// given up with it are resynchronised by state: their streams end, and when they
// are back they send again what was never acknowledged.
func (s *shard) discard(w *write, err error) {
	if w.dropped {
		return // who waited has been told
	}
	for _, e := range w.after {
		if r, ok := e.(machine.Reply); ok {
			answer(machine.Reply{To: r.To, Err: err})
		}
	}
	for _, a := range w.acks {
		s.e.workers.resync(a)
	}
	if s.open[w.run.Row.Run] == w {
		delete(s.open, w.run.Row.Run)
	}
	w.dropped = true
}

// post hands inputs to the shard; it never blocks.
func (s *shard) post(in machine.Input) { s.box.post(item{in: in}) }

func (s *shard) String() string { return fmt.Sprintf("shard %d", s.id) }

// lease returns the right under which the shard writes. The committer alone
// sets and reads it.
func (s *shard) lease() store.Lease { return s.leased }

func (s *shard) setLease(l store.Lease) { s.leased = l }
