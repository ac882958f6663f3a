package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/engined/engined/examples/saga/internal/wire"
)

// Page is all that is written in the ledger, as of one moment.
func (l *Ledger) Page(ctx context.Context) (wire.Ledger, error) {
	p := wire.Ledger{Service: l.service}
	err := l.transact(ctx, func(tx *txn) error {
		err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM starts), (SELECT count(*) FROM held)`).Scan(&p.Starts, &p.Held)
		if err != nil {
			return err
		}
		if p.Rows, err = tx.rows(); err != nil {
			return err
		}
		if p.Faults, err = tx.faults(); err != nil {
			return err
		}
		p.Shelves, err = tx.shelves()
		return err
	})
	if err != nil {
		return wire.Ledger{}, fmt.Errorf("read the ledger: %w", err)
	}
	return p, nil
}

func (t *txn) rows() ([]wire.Row, error) {
	return collect(t, func(rows *sql.Rows, r *wire.Row) error {
		var ns int64
		err := rows.Scan(&r.N, &ns, &r.Kind, &r.Key, &r.ForwardKey, &r.Fence, &r.Order, &r.Cents, &r.SKU, &r.Quantity, &r.Code, &r.Claim)
		r.Time = time.Unix(0, ns)
		return err
	}, `SELECT n, time, kind, key, forward_key, fence, ref, cents, sku, quantity, code, claim FROM rows ORDER BY n`)
}

func (t *txn) faults() ([]wire.Fault, error) {
	return collect(t, func(rows *sql.Rows, f *wire.Fault) error {
		var ns int64
		err := rows.Scan(&ns, &f.Kind, &f.Endpoint, &f.Key, &f.Try)
		f.Time = time.Unix(0, ns)
		return err
	}, `SELECT time, kind, endpoint, key, try FROM faults ORDER BY n`)
}

func (t *txn) shelves() ([]wire.Shelf, error) {
	return collect(t, func(rows *sql.Rows, s *wire.Shelf) error {
		return rows.Scan(&s.SKU, &s.Initial, &s.Left)
	}, `SELECT sku, initial, remain FROM shelves ORDER BY sku`)
}
