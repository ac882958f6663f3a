package worker

import (
	"context"
	"errors"
	"time"

	"github.com/engined/engined/sdk/activity"
)

// The engine pings each second, and takes a worker for lost after three of
// silence. So does the worker with the engine. Silence is counted in ticks and
// not measured: a process that was itself stopped, for an hour perhaps, hears of
// one tick when it goes on, and has the time of the others to read what came.
const (
	silenceTick  = 500 * time.Millisecond
	silenceTicks = 6
)

// lifeBytes in a tick are part of a message, and so a sign of life.
const lifeBytes = 1 << 10

var errSilent = errors.New("nothing was heard from the engine for 3 s")

// silenceError is the cause of the context of an activity whose worker does not
// hear from the engine. errors.As finds an *activity.InterruptedError in it.
type silenceError struct{}

func (*silenceError) Error() string {
	return "the activity was interrupted: its worker hears nothing from the engine, and it must not go on when the engine has given it up"
}

func (*silenceError) Unwrap() error { return &activity.InterruptedError{} }

// listen sees to it that somebody judges the silence of s, if it may be judged.
// The worker's mu is held.
func (w *Worker) listen(s *session) {
	if !pings(s.stream) || w.listening {
		return
	}
	w.listening = true
	w.group.Go("worker listening", w.judgeSilence)
}

// judgeSilence ends streams over which nothing is heard, until the worker ends.
// Activities that must not run twice are told when nothing was heard over any
// stream: the engine has given them up by then, or will not hear of their end.
func (w *Worker) judgeSilence(ctx context.Context) error {
	tick := time.NewTicker(silenceTick)
	defer tick.Stop()
	var last *session
	var heard, bytes int64 // over any stream
	quiet, all := 0, 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		w.mu.Lock()
		s := w.session
		w.mu.Unlock()
		quiet++
		all++
		n, b := w.heard.Load(), w.bytes.Load()
		if n != heard || b-bytes >= lifeBytes {
			heard, quiet, all = n, 0, 0
		}
		bytes = b
		if s != last {
			last, quiet = s, 0 // it has its own time
		}
		if all == silenceTicks {
			w.interrupt(&silenceError{}, func(x *task) bool { return x.t.Once })
		}
		if s != nil && quiet >= silenceTicks {
			s.cut(errSilent)
		}
	}
}
