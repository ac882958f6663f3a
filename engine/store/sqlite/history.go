package sqlite

import (
	"context"
	"database/sql"

	"github.com/engined/engined/engine/store"
)

// History reads event rows, and the run's own row in the same snapshot: only
// that tells whether a row is missing at the end.
func (s *Store) History(ctx context.Context, no store.RunNo, after int64, maxBytes int) ([]store.EventRow, error) {
	var out []store.EventRow
	err := s.snapshot(ctx, func(ctx context.Context, r *reader) error {
		run, err := s.runRow(ctx, r, no)
		if err != nil || run == nil {
			return err
		}
		h := &page{run: run, next: max(after, 0) + 1, left: maxBytes}
		if h.next >= run.NextEvent {
			return nil
		}
		err = each(ctx, r.events, h.take, int64(no), h.next)
		if err == nil && !h.full && h.next != run.NextEvent {
			err = h.missing()
		}
		if err != nil {
			return s.readError(err, "events", eventKey(no, h.next))
		}
		out = h.rows
		return nil
	})
	return out, err
}

// page is the part of a history that is being read.
type page struct {
	run  *store.RunRow
	next int64 // the event that must come next
	left int   // bytes
	full bool
	rows []store.EventRow
}

func (h *page) take(rows *sql.Rows) (more bool, err error) {
	e, err := scanEvents(rows)
	if err != nil {
		return false, err
	}
	fits := e.First == h.next
	if len(h.rows) == 0 {
		fits = e.First <= h.next && h.next <= e.Last // a page may start within a row
	}
	if !fits || e.Last >= h.run.NextEvent {
		return false, h.missing()
	}
	if h.left -= len(e.Data); h.left < 0 && len(h.rows) > 0 {
		h.full = true
		return false, nil
	}
	h.rows = append(h.rows, e)
	h.next = e.Last + 1
	return true, nil
}

func (h *page) missing() error {
	return &store.CorruptError{Table: "events", Key: eventKey(h.run.Run, h.next),
		Why: "the row that holds it is missing, or others are in its place"}
}
