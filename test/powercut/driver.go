package powercut

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/url"

	"github.com/ncruces/go-sqlite3"
	sqlite3driver "github.com/ncruces/go-sqlite3/driver"

	"github.com/engined/engined/engine/store/sqlite"
)

// Driver gives SQLite on a disk to the store.
type Driver struct {
	Disk *Disk
	// Tune makes small scripts meet what large ones meet.
	Tune Tuning
	// Plant, if set, is a planted bug.
	Plant *Plant

	conns []*sqlite3.Conn
}

// Tuning changes when SQLite does what it does, and never whether it syncs.
type Tuning struct {
	// Checkpoint is after how many pages the log is copied into the database,
	// 0 for what the store asks for.
	Checkpoint int
	// Cache is how many pages a connection keeps; what is more spills into the
	// log before its commit. 0 is SQLite's default.
	Cache int
}

// Plant is a planted bug.
type Plant struct {
	Name string
	// Text takes the place of statements.
	Text map[string]string
	// Exec changes what a statement does. It is asked once for each, with the
	// connection; a nil answer lets the statement be.
	Exec func(text string, c *sqlite3.Conn) Act
	Disk Lies
}

// Act takes the place of a statement; its error is what the store hears.
type Act func(run func() error) error

// Connector makes connections to the file at the path.
func (d *Driver) Connector(path string) (driver.Connector, error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "vfs=" + d.Disk.vfsName}
	inner, err := (&sqlite3driver.SQLite{}).OpenConnector(u.String())
	if err != nil {
		return nil, err
	}
	return &connector{driver: d, Connector: inner}, nil
}

// Classify reads the codes of the binding's errors.
func (d *Driver) Classify(err error) sqlite.Fault {
	var (
		extended sqlite3.ExtendedErrorCode
		code     sqlite3.ErrorCode
	)
	switch {
	case errors.As(err, &extended):
		return sqlite.FaultOf(int(extended.Code()), int(extended))
	case errors.As(err, &code):
		return sqlite.FaultOf(int(code), int(code))
	}
	return sqlite.Fault{}
}

// First is the connection that was made first: the one that writes.
func (d *Driver) First() *sqlite3.Conn { return d.conns[0] }

// Drop closes what was not closed, when nothing answers any more.
func (d *Driver) Drop() {
	for _, c := range d.conns {
		_ = c.Close() // the disk is dead: there is nothing to be heard
	}
}

type connector struct {
	driver *Driver
	driver.Connector
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	raw := inner.(sqlite3driver.Conn).Raw()
	c.driver.conns = append(c.driver.conns, raw)
	return &conn{Conn: inner, raw: raw, driver: c.driver}, nil
}

// conn passes everything on, but for what is tuned and planted.
type conn struct {
	driver.Conn
	raw    *sqlite3.Conn
	driver *Driver
}

// text is what is sent in place of a statement.
func (c *conn) text(text string) string {
	if p := c.driver.Plant; p != nil && p.Text[text] != "" {
		text = p.Text[text]
	}
	return c.driver.tuned(text)
}

// act is what is planted for the statement, or nil.
func (c *conn) act(text string) Act {
	if p := c.driver.Plant; p != nil && p.Exec != nil {
		return p.Exec(text, c.raw)
	}
	return nil
}

func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	st, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, c.text(text))
	if err != nil {
		return nil, err
	}
	act := c.act(text)
	if act == nil {
		return st, nil
	}
	return &stmt{Stmt: st, act: act}, nil
}

func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	var res driver.Result = driver.RowsAffected(0)
	run := func() (err error) {
		res, err = c.Conn.(driver.ExecerContext).ExecContext(ctx, c.text(text), args)
		return err
	}
	if len(args) > 0 {
		return nil, driver.ErrSkip
	}
	if act := c.act(text); act != nil {
		return res, act(run)
	}
	err := run()
	return res, err
}

// stmt is a statement with something planted.
type stmt struct {
	driver.Stmt
	act Act
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	var res driver.Result = driver.RowsAffected(1)
	err := s.act(func() (err error) {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	var rows driver.Rows
	err := s.act(func() (err error) {
		rows, err = s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
		return err
	})
	return rows, err
}
