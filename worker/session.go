package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/engined/engined/internal/apierr"
	"github.com/engined/engined/internal/retry"
	pb "github.com/engined/engined/proto/enginepb"
)

// session is one stream, with the copies of runs that were assigned over it.
type session struct {
	w      *Worker
	stream Stream
	out    *outbox
	// ended is closed when the stream is over.
	ended chan struct{}
	// cut ends the stream.
	cut context.CancelCauseFunc
	// durable is the newest number of that name; of the goroutine that receives.
	durable int64
	// read is the number of the newest message that was taken.
	read atomic.Int64

	// Guarded by the worker's mu: the messages that carry what is told until the
	// engine knows, in order; the one that told of the drain, and whether the
	// engine has dealt with it.
	carried  []carried
	drainSeq int64
	drained  bool

	mu   sync.Mutex
	runs map[int64]*run
	logs []loggedFold // in the order of their messages
}

// carried says which message carries the result of a task, or a recovery.
type carried struct {
	seq      int64
	x        *task
	recovery *pb.Fault
}

// reconnect spaces the tries to reach the engine: an engine that was restarted
// has its workers back within about a second.
var reconnect = retry.Policy{Attempts: -1, Base: 50 * time.Millisecond, Cap: time.Second}

// connect keeps a stream open until the worker is stopped.
func (w *Worker) connect(ctx context.Context) error {
	for try := 0; ctx.Err() == nil; try++ {
		began, heard := time.Now(), w.heard.Load()
		err := w.serve(ctx)
		if ctx.Err() != nil || w.isClosing(err) {
			return nil
		}
		if w.heard.Load() > heard && time.Since(began) > reconnect.Cap {
			try = 0 // it was a good one
		}
		wait := reconnect.Delay(try, rand.Uint64())
		if try&(try+1) == 0 { // less and less often
			w.warn(slog.LevelWarn, "there is no stream to the engine; connecting again", "err", fmt.Sprint(err), "in", wait, "try", try+1)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return nil
}

// isClosing says whether the end of a stream was the last. A worker that drains
// opens another, to hand over its results, unless the engine is closed for good.
func (w *Worker) isClosing(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = apierr.Is(err, apierr.Closed)
	w.changed.Broadcast()
	return w.closing || w.draining && w.refused
}

// serve opens a stream and takes what comes over it, to its end.
func (w *Worker) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := w.conn.Work(ctx)
	if err != nil {
		return err
	}
	s := newSession(w, stream, cancel)
	hello := w.open(s)
	w.group.Run("worker outbox", func(context.Context) error { return s.out.run(hello, s.ended) }, func(err error) error {
		if err != nil && err != io.EOF {
			cancel(err) // ends Recv
		}
		return nil
	})
	for {
		var down *pb.WorkerDown
		if down, err = stream.Recv(); err != nil {
			break
		}
		w.heard.Add(1)
		s.take(down)
	}
	w.shut(s)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // why the outbox broke it says more than what Recv makes of it
	}
	cancel(nil)
	<-s.out.done
	return err
}

func newSession(w *Worker, stream Stream, cut context.CancelCauseFunc) *session {
	s := &session{w: w, stream: stream, cut: cut, ended: make(chan struct{}), runs: map[int64]*run{}}
	s.out = newOutbox(stream, func(up *pb.WorkerUp) { up.Read, up.Slow = s.read.Load(), w.watch.slowRuns() })
	return s
}

// open makes s the present session: the hello lists what the process has, and
// results that were never acknowledged are sent again.
func (w *Worker) open(s *session) *pb.Hello {
	w.mu.Lock()
	defer w.mu.Unlock()
	hello := w.hello()
	for _, x := range w.tasks {
		if x.done != nil {
			x.answer(s)
		}
	}
	for f := range w.recoveries {
		s.tellRecovered(f)
	}
	if w.draining {
		s.tellDraining()
	}
	w.session, w.refused = s, false
	w.listen(s)
	w.changed.Broadcast()
	return hello
}

// tellDraining tells the engine that no new work is wanted. The worker's mu is
// held.
func (s *session) tellDraining() {
	s.out.put(item{draining: true, sent: func(seq int64) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		s.drainSeq = seq
	}})
}

// shut ends the session. Its copies of runs are of no use: the engine assigns
// the runs elsewhere.
func (w *Worker) shut(s *session) {
	w.mu.Lock()
	if w.session == s {
		w.session = nil
	}
	w.changed.Broadcast()
	w.mu.Unlock()
	close(s.ended)
	s.mu.Lock()
	runs := s.runs
	s.runs, s.logs = map[int64]*run{}, nil
	s.mu.Unlock()
	for _, r := range runs {
		r.drop()
	}
}

// take deals with a message from the engine. It runs no user code and waits for
// none.
func (s *session) take(d *pb.WorkerDown) {
	for _, a := range d.Assign {
		s.assign(a)
	}
	for _, in := range d.Inputs {
		if r := s.find(in.Run, in.Stamp); r != nil {
			r.add(in.Event)
		}
	}
	for _, drop := range d.Drops {
		if r := s.find(drop.Run, drop.Stamp); r != nil && s.remove(r) {
			r.drop()
		}
	}
	for _, t := range d.Tasks {
		s.w.begin(s, t)
	}
	for _, c := range d.Cancels {
		s.w.cancelTask(c)
	}
	if d.Drain {
		s.w.drain()
	}
	// Last: a task may come once more together with the word that its result is
	// durable, and must find the delivery known.
	if d.Durable > s.durable {
		s.durable = d.Durable
		s.release(d.Durable)
		s.forget(d.Durable)
	}
	// All of it is known to the process now, its deliveries above all.
	if d.Seq > 0 {
		s.read.Store(d.Seq)
	}
}

// assign takes a run over, in place of an older copy, or goes on with an
// assignment that has begun under this stamp.
func (s *session) assign(a *pb.Assign) {
	if r := s.find(a.Run, a.Stamp); r != nil && r.load(a) {
		return
	}
	r := s.w.newCopy(s, a)
	s.mu.Lock()
	old := s.runs[a.Run]
	s.runs[a.Run] = r
	s.mu.Unlock()
	if old != nil {
		old.drop()
	}
	r.load(a)
}

// find returns the copy of the run under this stamp, and none under another.
func (s *session) find(no int64, stamp *pb.Stamp) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[no]
	if r == nil || r.stamp.GetIncarnation() != stamp.GetIncarnation() || r.stamp.GetEpoch() != stamp.GetEpoch() {
		return nil
	}
	return r
}

// remove takes the copy off the list, if it is still on it.
func (s *session) remove(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[r.no] != r {
		return false
	}
	delete(s.runs, r.no)
	return true
}
