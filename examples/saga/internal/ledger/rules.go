package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/engined/engined/examples/saga/internal/wire"
)

// state of a key.
type state string

const (
	done    state = "done"
	refused state = "refused"
	// sealed: undone before it was done, so it never will be.
	sealed state = "sealed"
	undone state = "undone"
)

// entry is what is remembered of a key.
type entry struct {
	key, endpoint, digest string
	fence                 int64
	state                 state
	status                int
	answer                []byte
}

// closed says that an undo has come: nothing may happen under the key any more.
func (e *entry) closed() bool { return e != nil && (e.state == sealed || e.state == undone) }

// Result is what a call is told.
type Result struct {
	Status int
	Body   []byte
	// Worked says that this call has done something, and not only been answered.
	Worked bool
	// Refused says that this call was the first to get the trade's refusal.
	Refused bool
}

// apply runs a call through the rules. seedRefuses makes the trade refuse a call
// that it would take.
func (l *Ledger) apply(tx *txn, c *Call, seedRefuses bool) (Result, error) {
	e, err := tx.entry(c.Key)
	if err != nil {
		return Result{}, err
	}
	if p := guard(e, c); p != nil {
		return tx.refuse(c, p)
	}
	if c.ask.undo != nil {
		return l.undo(tx, c, e)
	}
	if e != nil {
		return tx.repeat(c, e)
	}
	return l.forward(tx, c, seedRefuses)
}

// guard holds a call against what its key was used for before. The seal comes
// before the fence: it says more, and holds against every fence.
func guard(e *entry, c *Call) *wire.Problem {
	switch {
	case e == nil:
		return nil
	case e.endpoint != c.Endpoint:
		return &wire.Problem{Code: wire.OtherEndpoint, Detail: fmt.Sprintf("the key was used on %s", e.endpoint)}
	case e.digest != "" && e.digest != c.ask.digest:
		return &wire.Problem{Code: wire.OtherBody, Detail: "the key was used for another request"}
	case e.closed():
		return &wire.Problem{Code: wire.IsSealed, Detail: fmt.Sprintf("the call was %s, and comes too late", e.state)}
	case c.Fence < e.fence:
		return &wire.Problem{Code: wire.OldFence, Detail: fmt.Sprintf("the fence is %d, and %d was here before", c.Fence, e.fence)}
	default:
		return nil
	}
}

// forward does the work of a key that was never seen.
func (l *Ledger) forward(tx *txn, c *Call, seedRefuses bool) (Result, error) {
	refusal, err := l.take(tx, c, seedRefuses)
	if err != nil {
		return Result{}, err
	}
	e := &entry{key: c.Key, endpoint: c.Endpoint, digest: c.ask.digest, fence: c.Fence}
	if refusal != nil {
		r, err := tx.refuse(c, refusal)
		r.Refused = true
		e.state, e.status, e.answer = refused, r.Status, r.Body
		return r, errors.Join(err, tx.put(e))
	}
	n, err := tx.write(c, wire.Row{Kind: c.Endpoint, Cents: c.ask.cents, SKU: c.ask.sku, Quantity: c.ask.quantity})
	if err != nil {
		return Result{}, err
	}
	e.state, e.status = done, 200
	e.answer, err = json.Marshal(wire.Answer{ID: fmt.Sprintf("%s-%05d", c.Endpoint, n), Did: c.Endpoint})
	return Result{Status: e.status, Body: e.answer, Worked: true}, errors.Join(err, tx.put(e))
}

// take decides whether the trade takes the call, and takes goods off the shelf.
func (l *Ledger) take(tx *txn, c *Call, seedRefuses bool) (*wire.Problem, error) {
	if c.ask.refusal != nil {
		return c.ask.refusal, nil
	}
	if seedRefuses {
		return l.whim(), nil
	}
	if c.ask.sku == "" {
		return nil, nil
	}
	res, err := tx.ExecContext(tx.ctx, `UPDATE shelves SET remain = remain - ?1 WHERE sku = ?2 AND remain >= ?1`,
		c.ask.quantity, c.ask.sku)
	if err != nil {
		return nil, fmt.Errorf("take from the shelf: %w", err)
	}
	n, err := res.RowsAffected()
	if n == 0 && err == nil {
		return &wire.Problem{Code: wire.OutOfStock, Detail: fmt.Sprintf("fewer than %d pieces of %s are left", c.ask.quantity, c.ask.sku)}, nil
	}
	return nil, err
}

// whim is the refusal that the seed wants.
func (l *Ledger) whim() *wire.Problem {
	switch l.service {
	case wire.Payments:
		return &wire.Problem{Code: wire.Declined, Detail: "the bank suspects fraud (by the seed)"}
	case wire.Stock:
		return &wire.Problem{Code: wire.OutOfStock, Detail: "the last pieces are damaged (by the seed)"}
	default:
		return &wire.Problem{Code: wire.BadAddress, Detail: "the address cannot be found (by the seed)"}
	}
}

// undo gives back what was done under the forward key, or makes it impossible.
func (l *Ledger) undo(tx *txn, c *Call, own *entry) (Result, error) {
	f, err := tx.entry(c.ask.undo.ForwardKey)
	if err != nil {
		return Result{}, err
	}
	switch {
	case f != nil && f.endpoint != l.service.Forward():
		return tx.refuse(c, &wire.Problem{Code: wire.OtherEndpoint, Detail: fmt.Sprintf("the forward key was used on %s", f.endpoint)})
	case f != nil && c.Fence < f.fence:
		return tx.refuse(c, &wire.Problem{Code: wire.OldFence, Detail: fmt.Sprintf("the fence is %d, and %d was here before", c.Fence, f.fence)})
	case own != nil:
		return tx.repeat(c, own)
	}
	if f == nil {
		f = &entry{key: c.ask.undo.ForwardKey, endpoint: l.service.Forward()}
	}
	did, n, err := l.close(tx, c, f)
	if err != nil {
		return Result{}, err
	}
	body, err := json.Marshal(wire.Answer{ID: fmt.Sprintf("%s-%05d", did, n), Did: did})
	if err != nil {
		return Result{}, err
	}
	own = &entry{key: c.Key, endpoint: c.Endpoint, digest: c.ask.digest, fence: c.Fence, state: done, status: 200, answer: body}
	f.fence = c.Fence
	return Result{Status: 200, Body: body, Worked: did != wire.RowRepeat}, errors.Join(tx.put(own), tx.put(f))
}

// close ends the forward key for ever, and says by which line of the ledger.
func (l *Ledger) close(tx *txn, c *Call, f *entry) (did string, n int64, err error) {
	switch {
	case f.closed():
		// Another undo was here; it may have been asked for by another key.
		n, err = tx.write(c, wire.Row{Kind: wire.RowRepeat})
		return wire.RowRepeat, n, err
	case f.state != done:
		f.state = sealed
		n, err = tx.write(c, wire.Row{Kind: wire.RowSeal})
		return wire.Sealed, n, err
	}
	f.state = undone
	back := wire.Row{Kind: c.Endpoint}
	err = tx.QueryRowContext(tx.ctx, `SELECT cents, sku, quantity FROM rows WHERE key = ? AND kind = ?`, f.key, f.endpoint).
		Scan(&back.Cents, &back.SKU, &back.Quantity)
	if err != nil {
		return "", 0, fmt.Errorf("find what to undo of key %s: %w", f.key, err)
	}
	if back.SKU != "" {
		if err := tx.exec(`UPDATE shelves SET remain = remain + ? WHERE sku = ?`, back.Quantity, back.SKU); err != nil {
			return "", 0, fmt.Errorf("put back on the shelf: %w", err)
		}
	}
	n, err = tx.write(c, back)
	return c.Endpoint, n, err
}

// entry reads what is remembered of a key, nil when nothing is.
func (t *txn) entry(key string) (*entry, error) {
	e := &entry{key: key}
	err := t.QueryRowContext(t.ctx, `SELECT endpoint, digest, fence, state, status, answer FROM keys WHERE key = ?`, key).
		Scan(&e.endpoint, &e.digest, &e.fence, &e.state, &e.status, &e.answer)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", key, err)
	}
	return e, nil
}

func (t *txn) put(e *entry) error {
	answer := e.answer
	if answer == nil {
		answer = []byte{} // a sealed key was never answered
	}
	err := t.exec(`INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET fence = excluded.fence, state = excluded.state`,
		e.key, e.endpoint, e.digest, e.fence, e.state, e.status, answer)
	if err != nil {
		return fmt.Errorf("write key %s: %w", e.key, err)
	}
	return nil
}

// repeat gives the answer that the key's call was given before.
func (t *txn) repeat(c *Call, e *entry) (Result, error) {
	e.fence = c.Fence
	_, err := t.write(c, wire.Row{Kind: wire.RowRepeat})
	return Result{Status: e.status, Body: e.answer}, errors.Join(err, t.put(e))
}

func (t *txn) refuse(c *Call, p *wire.Problem) (Result, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return Result{}, err
	}
	_, err = t.write(c, wire.Row{Kind: wire.RowRefused, Code: p.Code})
	return Result{Status: p.Code.Status(), Body: body}, err
}

// write adds a line about c to the ledger and returns its number.
func (t *txn) write(c *Call, r wire.Row) (int64, error) {
	if u := c.ask.undo; u != nil {
		r.ForwardKey, r.Claim = u.ForwardKey, u.Outcome
	}
	res, err := t.ExecContext(t.ctx, `INSERT INTO rows
		(time, kind, key, forward_key, fence, ref, cents, sku, quantity, code, claim) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.now.UnixNano(), r.Kind, c.Key, r.ForwardKey, c.Fence, c.ask.order, r.Cents, r.SKU, r.Quantity, r.Code, r.Claim)
	if err != nil {
		return 0, fmt.Errorf("write a line of the ledger: %w", err)
	}
	return res.LastInsertId()
}
