package sqlite

import (
	"database/sql"
	"maps"
	"slices"

	"github.com/engined/engined/engine/store"
)

// Writer is the connection that writes, for tests that set it up to fail.
func (s *Store) Writer() *sql.Conn { return s.conn }

// Reader takes a connection that reads; the test gives it back.
func (s *Store) Reader() (conn *sql.Conn, giveBack func()) {
	r := <-s.readers
	return r.conn, func() { s.readers <- r }
}

// OSFiles is what Config.Files is where it is nil.
func OSFiles() Files { return osFiles{} }

// HotStatements are those whose cost must not grow with the database.
func HotStatements() []string {
	list := []string{sqlInsertRun, sqlUpdateStays, sqlUpdateTurns, sqlRunState, sqlVersion, sqlInsertEvents,
		sqlInsertPending, sqlUpdatePending, sqlDeletePending, sqlInsertDedup, sqlShard, sqlUpdateShard,
		sqlRun, sqlNewest, sqlByRequest, sqlPending, sqlDedup, sqlOrphans, sqlDue, sqlAttention, sqlEvents}
	lists := map[string]bool{}
	for _, q := range []store.Query{{Namespace: "n"}, {Namespace: "n", BeforeStarted: 1}, {Namespace: "n", Type: "t", Status: 1}} {
		text, _ := listSQL(&q)
		lists[text] = true
	}
	return append(list, slices.Sorted(maps.Keys(lists))...)
}

// ListOfID is the statement that lists the runs of one id.
func ListOfID() string {
	text, _ := listSQL(&store.Query{Namespace: "n", WorkflowID: "w", BeforeStarted: 1})
	return text
}
