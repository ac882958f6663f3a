package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/engined/engined/examples/saga/internal/proc"
	"github.com/engined/engined/examples/saga/internal/report"
)

// embedded runs the shop as one process, engine and worker and customers in one.
// It returns when all orders have ended.
func (s *supervisor) embedded() error {
	p, err := s.fleet.Group.Start(proc.Config{
		Name:    "the shop",
		Command: proc.Again(shopEnv + "=" + embeddedPart),
		Input: func() ([]byte, error) {
			c := s.shopConfig()
			c.Database, c.Orders, c.Tell = s.path("engined.db"), s.orders, s.tell()
			return json.Marshal(c)
		},
		Said: s.hear,
		Log:  s.path("shop.log"),
	})
	if err != nil {
		return err
	}
	kill := &blow{
		Blow:   report.Blow{What: "the shop was killed with -9", Least: 3},
		strike: func(context.Context) (*taken, error) { return nil, p.Kill() },
	}
	s.blows = []*blow{kill, kill, kill, kill} // one more than must be
	return s.strikeDuring(s.fleet.Context(), func(ctx context.Context) error {
		select {
		case <-s.all:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// hear takes a line of the shop, which is ready with its first.
func (s *supervisor) hear(line string) (ready bool, err error) {
	var n news
	if err := json.Unmarshal([]byte(line), &n); err != nil {
		return false, fmt.Errorf("it said %q: %w", line, err)
	}
	s.take(n)
	return true, nil
}
