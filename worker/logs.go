package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/engined/engined/internal/replay"
)

// logbookMax is how many records wait for a log that does not keep up.
const logbookMax = 10_000

// logbook writes records in their order on a goroutine of its own, which lives
// while there are any: a slog.Handler is user code, and may block.
type logbook struct {
	mu      sync.Mutex
	waiting []slog.Record
	lost    int
	writing bool
}

// note writes a record, some time soon.
func (w *Worker) note(rec slog.Record) {
	b := &w.logs
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= logbookMax {
		b.lost++
		return
	}
	b.waiting = append(b.waiting, rec)
	if b.writing {
		return
	}
	b.writing = true
	w.group.Run("worker log", w.writeLogs, func(err error) error {
		if err != nil {
			// The handler's fault. What it was given is lost, and it gets another
			// chance with what comes.
			b.mu.Lock()
			defer b.mu.Unlock()
			b.writing = false
		}
		return nil
	})
}

// logLevel is the lowest level that the log takes: what is below need not be kept
// until a fold is durable.
func (w *Worker) logLevel() slog.Level {
	h := w.opts.Logger.Handler()
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if h.Enabled(w.group.Context(), l) {
			return l
		}
	}
	return slog.LevelError
}

// warn writes a record of the worker's own without waiting for the handler.
func (w *Worker) warn(level slog.Level, msg string, args ...any) {
	rec := slog.NewRecord(time.Now(), level, msg, 0)
	rec.Add(args...)
	w.note(rec)
}

func (w *Worker) writeLogs(ctx context.Context) error {
	h := w.opts.Logger.Handler()
	for {
		records := w.logs.take()
		if len(records) == 0 {
			return nil
		}
		for _, rec := range records {
			if h.Enabled(ctx, rec.Level) {
				// A log that cannot be written is nobody's to mend here.
				_ = h.Handle(ctx, rec)
			}
		}
	}
}

// take returns what waits; when nothing does, the writer's time is over.
func (b *logbook) take() []slog.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	records := b.waiting
	b.waiting = nil
	if b.lost > 0 {
		records = append(records, slog.NewRecord(time.Now(), slog.LevelWarn,
			fmt.Sprintf("%d log records were lost: the log does not keep up", b.lost), 0))
		b.lost = 0
	}
	b.writing = len(records) > 0
	return records
}

// loggedFold is what workflow code logged in a fold, until the message that
// carries its decisions is durable.
type loggedFold struct {
	seq     int64
	records []replay.Record
}

// keepLogs holds records back until message seq is durable.
func (s *session) keepLogs(seq int64, records []replay.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = append(s.logs, loggedFold{seq, records})
}

// release writes the log records of folds that are durable.
func (s *session) release(durable int64) {
	s.mu.Lock()
	n := 0
	for n < len(s.logs) && s.logs[n].seq <= durable {
		n++
	}
	out := s.logs[:n:n]
	s.logs = s.logs[n:]
	s.mu.Unlock()
	for _, f := range out {
		for _, rec := range f.records {
			s.w.note(rec.Record)
		}
	}
}
