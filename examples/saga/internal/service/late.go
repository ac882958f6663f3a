package service

import (
	"context"
	"errors"
	"time"

	"github.com/engined/engined/examples/saga/internal/ledger"
)

// holdBack delivers a call when it is due. One that waits for its undo is
// delivered by overtaken.
func (s *Server) holdBack(h ledger.Held) {
	if h.Due.IsZero() {
		return
	}
	s.late.Go(func() {
		due := time.NewTimer(time.Until(h.Due))
		defer due.Stop()
		select {
		case <-due.C:
		case <-s.ctx.Done():
			return
		}
		// Once begun it is not broken off: it is one short transaction.
		if err := s.ledger.Deliver(context.WithoutCancel(s.ctx), h.ID); err != nil {
			// It stays in the ledger; settle, or the next start, brings it.
			s.log.Error("a late call was not delivered", "service", s.service, "id", h.ID, "error", err)
		}
	})
}

// overtaken delivers the calls that waited for their undo, which has come.
func (s *Server) overtaken(ctx context.Context) error {
	held, err := s.ledger.Overtaken(ctx)
	if err != nil || len(held) == 0 {
		return err
	}
	return s.deliver(ctx, held)
}

func (s *Server) deliver(ctx context.Context, held []ledger.Held) error {
	var errs []error
	for _, h := range held {
		errs = append(errs, s.ledger.Deliver(ctx, h.ID))
	}
	return errors.Join(errs...)
}
