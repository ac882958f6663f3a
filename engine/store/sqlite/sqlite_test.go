package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/engined/engined/engine/store"
	"github.com/engined/engined/engine/store/sqlite"
	"github.com/engined/engined/engine/store/sqlite/mattn"
	"github.com/engined/engined/engine/store/storetest"
)

func TestKeepsThePromisesOfAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener {
		path := filepath.Join(t.TempDir(), "engine.db")
		return func(t *testing.T) store.Store { return open(t, path, mattn.Driver()) }
	})
}

// open opens the database; the test closes it if it has not been by then.
func open(t *testing.T, path string, d sqlite.Driver) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Shards: storetest.Shards, Driver: d})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
