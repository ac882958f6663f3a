package faultdriver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// conn is a connection; database/sql uses it by one goroutine at a time.
type conn struct {
	rig   *Rig
	inner driver.Conn
	mute  bool
}

// Closing always reaches the driver beneath: the dead hold no locks.
func (c *conn) Close() error { return c.inner.Close() }

func (c *conn) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	if c.silent() {
		return nil, ErrSilent
	}
	var (
		inner driver.Stmt
		err   error
	)
	if p, ok := c.inner.(driver.ConnPrepareContext); ok {
		inner, err = p.PrepareContext(ctx, text)
	} else {
		inner, err = c.inner.Prepare(text)
	}
	if err != nil {
		return nil, err
	}
	return &stmt{conn: c, inner: inner, text: text}, nil
}

// Begin is not for use: the store sends BEGIN itself.
func (c *conn) Begin() (driver.Tx, error) {
	return nil, errors.New("the rig has no driver.Tx: send BEGIN")
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (res driver.Result, err error) {
	inner, ok := c.inner.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	res = driver.RowsAffected(0)
	err = c.around(ctx, text, func() (err error) {
		res, err = inner.ExecContext(ctx, text, args)
		return err
	})
	return res, err
}

func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (rows driver.Rows, err error) {
	inner, ok := c.inner.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	err = c.around(ctx, text, func() (err error) {
		rows, err = inner.QueryContext(ctx, text, args)
		return err
	})
	return rows, err
}

func (c *conn) silent() bool { return c.mute || c.rig.isCut() }

// around runs a statement, or does to it what the test has asked for.
func (c *conn) around(ctx context.Context, text string, run func() error) error {
	if c.silent() {
		return ErrSilent
	}
	if !strings.EqualFold(strings.TrimSpace(text), "COMMIT") {
		err := c.rig.refuses(text)
		if errors.Is(err, ErrSwallowed) {
			return nil
		}
		if err != nil {
			return err
		}
		return run()
	}
	o := c.rig.next()
	var err error
	switch o.do {
	case pass, stand, muteAfter, cutAfter:
		err = run()
	case rollBack:
		err = c.rollBack(ctx)
	}
	switch o.do {
	case muteBefore, muteAfter:
		c.mute = true
	case cutBefore, cutAfter:
		c.rig.setCut()
	}
	if err != nil {
		return fmt.Errorf("the driver beneath failed by itself: %w", err)
	}
	return o.report
}

func (c *conn) rollBack(ctx context.Context) error {
	st, err := c.inner.Prepare("ROLLBACK")
	if err != nil {
		return err
	}
	_, err = st.(driver.StmtExecContext).ExecContext(ctx, nil)
	return errors.Join(err, st.Close())
}

type stmt struct {
	conn  *conn
	inner driver.Stmt
	text  string
}

func (s *stmt) Close() error  { return s.inner.Close() }
func (s *stmt) NumInput() int { return s.inner.NumInput() }

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	res = driver.RowsAffected(0)
	err = s.conn.around(ctx, s.text, func() (err error) {
		res, err = s.inner.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = s.conn.around(ctx, s.text, func() (err error) {
		rows, err = s.inner.(driver.StmtQueryContext).QueryContext(ctx, args)
		return err
	})
	return rows, err
}

var errOld = errors.New("the rig takes calls with a context only")

func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, errOld }
func (s *stmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errOld }
