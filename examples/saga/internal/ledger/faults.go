package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/engined/engined/examples/saga/internal/chaos"
)

// Plan decides which fault meets a call. A chaos.Plan is one.
type Plan interface {
	At(c chaos.Call) chaos.Fault
}

// Arrival is what the weather makes of a call that has come.
type Arrival struct {
	// Fault is what to do to it. LoseRequest and DieBefore are counted already,
	// a Late or LateAfterUndo call is written to Held; the rest is for Do.
	Fault chaos.Fault
	// Try is the number of the call under its key.
	Try int64
	// Held is set for a call that is held back.
	Held *Held
}

// Held is a call that the network holds back.
type Held struct {
	ID int64
	// Due is when it is delivered. A zero Due is: after its undo.
	Due time.Time
}

// Arrive counts a call and asks the plan (nil has no faults) what meets it, in
// one transaction, so that a fault of which a process dies is on the disk before.
func (l *Ledger) Arrive(ctx context.Context, c *Call, plan Plan) (Arrival, error) {
	var a Arrival
	if plan == nil {
		return a, nil
	}
	err := l.transact(ctx, func(tx *txn) error {
		ordinal, held, err := tx.count(c, &a)
		if err != nil {
			return fmt.Errorf("count the call: %w", err)
		}
		a.Fault = plan.At(chaos.Call{Endpoint: c.Endpoint, Ordinal: ordinal, Try: a.Try})
		if a.Fault.Kind == chaos.LateAfterUndo && held > 0 {
			// One is on its way; nothing else of this key gets through.
			a.Fault.Kind = chaos.LoseRequest
		}
		switch a.Fault.Kind {
		case chaos.LoseRequest, chaos.DieBefore:
			return tx.fault(a.Fault.Kind, c, a.Try)
		case chaos.Late:
			a.Held, err = tx.hold(c, a.Try, tx.now.Add(a.Fault.Delay))
		case chaos.LateAfterUndo:
			a.Held, err = tx.hold(c, a.Try, time.Time{})
		}
		return err
	})
	return a, err
}

// count gives a key its ordinal when it comes first. What the trade refuses
// anyway gets none: a fault there would prove nothing.
func (t *txn) count(c *Call, a *Arrival) (ordinal, held int64, err error) {
	err = t.QueryRowContext(t.ctx, `INSERT INTO arrivals VALUES (?1, ?2,
			iif(?3, (SELECT coalesce(max(ordinal), 0) + 1 FROM arrivals WHERE endpoint = ?1), 0), 1, 0)
		ON CONFLICT DO UPDATE SET tries = tries + 1 RETURNING ordinal, tries, held`,
		c.Endpoint, c.Key, c.ask.refusal == nil).Scan(&ordinal, &a.Try, &held)
	return ordinal, held, err
}

func (t *txn) fault(k chaos.Kind, c *Call, try int64) error {
	err := t.exec(`INSERT INTO faults (time, kind, endpoint, key, try) VALUES (?, ?, ?, ?, ?)`,
		t.now.UnixNano(), k, c.Endpoint, c.Key, try)
	if err != nil {
		return fmt.Errorf("count a fault: %w", err)
	}
	return nil
}

func (t *txn) hold(c *Call, try int64, due time.Time) (*Held, error) {
	var at sql.NullInt64
	if !due.IsZero() {
		at = sql.NullInt64{Int64: due.UnixNano(), Valid: true}
	} else if err := t.exec(`UPDATE arrivals SET held = held + 1 WHERE endpoint = ? AND key = ?`, c.Endpoint, c.Key); err != nil {
		return nil, fmt.Errorf("hold a call back: %w", err)
	}
	res, err := t.ExecContext(t.ctx, `INSERT INTO held (endpoint, key, fence, body, try, due) VALUES (?, ?, ?, ?, ?, ?)`,
		c.Endpoint, c.Key, c.Fence, c.Body, try, at)
	if err != nil {
		return nil, fmt.Errorf("hold a call back: %w", err)
	}
	id, err := res.LastInsertId()
	return &Held{ID: id, Due: due}, err
}

// Do runs a call through the rules of the service and commits what comes of it,
// together with the arrival's fault when that has a part in it: a slow answer, a
// refusal, and, if there was work to do, an answer that will be lost.
func (l *Ledger) Do(ctx context.Context, c *Call, a Arrival) (Result, error) {
	var r Result
	err := l.transact(ctx, func(tx *txn) error {
		var err error
		if r, err = l.apply(tx, c, a.Fault.Kind == chaos.Refuse); err != nil {
			return err
		}
		var happened bool
		switch a.Fault.Kind {
		case chaos.Slow:
			happened = true
		case chaos.Refuse:
			happened = r.Refused
		case chaos.LoseAnswer, chaos.DieAfter:
			happened = r.Worked
		}
		if happened {
			return tx.fault(a.Fault.Kind, c, a.Try)
		}
		return nil
	})
	return r, err
}

// Deliver brings a call that was held back, with nobody left to be answered, and
// counts the fault. A call that was delivered before is none.
func (l *Ledger) Deliver(ctx context.Context, id int64) error {
	return l.transact(ctx, func(tx *txn) error {
		var endpoint, key string
		var fence, try int64
		var body []byte
		err := tx.QueryRowContext(ctx, `DELETE FROM held WHERE id = ? RETURNING endpoint, key, fence, body, try`, id).
			Scan(&endpoint, &key, &fence, &body, &try)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("deliver call %d: %w", id, err)
		}
		c, err := l.NewCall(endpoint, key, fence, body)
		if err != nil {
			return fmt.Errorf("deliver call %d: %w", id, err)
		}
		e, err := tx.entry(key)
		if err != nil {
			return err
		}
		if _, err := l.apply(tx, c, false); err != nil {
			return fmt.Errorf("deliver call %d: %w", id, err)
		}
		kind := chaos.Late
		if e.closed() {
			kind = chaos.LateAfterUndo
		}
		return tx.fault(kind, c, try)
	})
}

// Held lists the calls that are held back, the oldest first.
func (l *Ledger) Held(ctx context.Context) ([]Held, error) {
	return l.held(ctx, `SELECT id, due FROM held ORDER BY id`)
}

// Overtaken lists the calls that were held back until their undo, and it came.
func (l *Ledger) Overtaken(ctx context.Context) ([]Held, error) {
	return l.held(ctx, `SELECT id, due FROM held JOIN keys USING (key)
		WHERE due IS NULL AND state IN (?, ?) ORDER BY id`, sealed, undone)
}

func (l *Ledger) held(ctx context.Context, query string, args ...any) (all []Held, err error) {
	err = l.transact(ctx, func(tx *txn) error {
		all, err = collect(tx, func(rows *sql.Rows, h *Held) error {
			var due sql.NullInt64
			if err := rows.Scan(&h.ID, &due); err != nil {
				return err
			}
			if due.Valid {
				h.Due = time.Unix(0, due.Int64)
			}
			return nil
		}, query, args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what is held back: %w", err)
	}
	return all, nil
}
