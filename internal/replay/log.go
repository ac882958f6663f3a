package replay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// logMax is how many records of one fold are kept.
const logMax = 1000

// Record is a log record of a live fold.
type Record struct {
	// Cause is the input that was folded.
	Cause int64
	slog.Record
}

// logs collects the records of live folds; replaying folds are silent. The lock
// is for loggers that stray goroutines hold.
type logs struct {
	level slog.Leveler

	mu      sync.Mutex
	on      bool
	cause   int64
	now     time.Time
	records []Record
	dropped int
}

func (l *logs) resume(cause int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on, l.cause, l.now = true, cause, now
}

func (l *logs) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = false
	if l.dropped > 0 {
		note := slog.NewRecord(l.now, slog.LevelWarn, fmt.Sprintf("%d more log records of this input were dropped", l.dropped), 0)
		l.records = append(l.records, Record{Cause: l.cause, Record: note})
		l.dropped = 0
	}
}

func (l *logs) take() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.records
	l.records = nil
	return out
}

func (l *logs) enabled(level slog.Level) bool {
	lowest := slog.LevelInfo
	if l.level != nil {
		lowest = l.level.Level()
	}
	if level < lowest {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.on
}

func (l *logs) add(rec slog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.on:
	case len(l.records) >= logMax:
		l.dropped++
	default:
		rec.Time = l.now
		l.records = append(l.records, Record{Cause: l.cause, Record: rec})
	}
}

// Logger logs to the run's records: silent on replay, with the time of the
// input being folded. It may be kept, and used by other coroutines of the run.
func (c Context) Logger() *slog.Logger {
	co, err := c.look()
	if err != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&handler{logs: &co.run.logs})
}

// handler keeps what With and WithGroup added, in order.
type handler struct {
	logs  *logs
	added []addition
}

// addition is a group's name, or attributes.
type addition struct {
	group string
	attrs []slog.Attr
}

// Enabled says whether a record would be kept.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return h.logs.enabled(level) }

// WithAttrs returns a handler that adds the attributes to each record.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{logs: h.logs, added: append(slices.Clip(h.added), addition{attrs: frozen(attrs)})}
}

// WithGroup returns a handler that puts what is added later into a group.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{logs: h.logs, added: append(slices.Clip(h.added), addition{group: name})}
}

// Handle keeps the record, with values as they are now.
func (h *handler) Handle(_ context.Context, rec slog.Record) error {
	var attrs []slog.Attr
	rec.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	attrs = frozen(attrs)
	for _, a := range slices.Backward(h.added) {
		if a.group == "" {
			attrs = append(slices.Clip(a.attrs), attrs...)
		} else if len(attrs) > 0 {
			attrs = []slog.Attr{{Key: a.group, Value: slog.GroupValue(attrs...)}}
		}
	}
	out := slog.NewRecord(rec.Time, rec.Level, rec.Message, rec.PC)
	out.AddAttrs(attrs...)
	h.logs.add(out)
	return nil
}

// frozen returns the attributes with values that do not change: the record is
// read later and elsewhere, while workflow code goes on with what it logged.
func frozen(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		v := a.Value.Resolve()
		switch v.Kind() {
		case slog.KindAny:
			v = slog.StringValue(fmt.Sprintf("%+v", v.Any()))
		case slog.KindGroup:
			v = slog.GroupValue(frozen(v.Group())...)
		}
		out[i] = slog.Attr{Key: a.Key, Value: v}
	}
	return out
}
