// Package mattn gives github.com/mattn/go-sqlite3 to the SQLite store. It alone
// imports that driver, and must know nothing of what is stored.
package mattn

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/url"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/engined/engined/engine/store/sqlite"
)

// Driver returns the driver, for sqlite.Config. It needs cgo.
func Driver() sqlite.Driver { return binding{} }

type binding struct{}

// Connector takes the path as a URI, so that a '?' or '#' in it is a part of the
// name.
func (binding) Connector(path string) (driver.Connector, error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	return &connector{dsn: u.String()}, nil
}

// Classify reads the codes of the driver's error.
func (binding) Classify(err error) sqlite.Fault {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return sqlite.Fault{}
	}
	return sqlite.FaultOf(int(e.Code), int(e.ExtendedCode))
}

type connector struct {
	dsn    string
	driver sqlite3.SQLiteDriver
}

func (c *connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

func (c *connector) Driver() driver.Driver { return &c.driver }
