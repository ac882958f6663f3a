package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	pb "github.com/engined/engined/proto/enginepb"
)

// screen shows what happens while it happens.
type screen struct {
	began time.Time
	total int

	mu  sync.Mutex
	out io.Writer
}

func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%6.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *screen) order(n int, e *ended) {
	what := statusWord(e.Status)
	if undo := undoWord(e.Undo); undo != "" {
		what += ", " + undo
	}
	if e.Reason != "" {
		what += ": " + e.Reason
	}
	s.line("%2d of %d  order %s %s", n, s.total, e.Order, what)
}

// statusWord and undoWord are the engine's words for a person.
func statusWord(s pb.Status) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.String(), "STATUS_")), "_", " ")
}

func undoWord(u pb.UndoState) string {
	switch u {
	case pb.UndoState_UNDO_STATE_COMPENSATING:
		return "compensating"
	case pb.UndoState_UNDO_STATE_COMPENSATED:
		return "compensated"
	case pb.UndoState_UNDO_STATE_FAILED:
		return "compensation failed"
	default:
		return ""
	}
}
