package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// The statements that write. An update finds its row only if the row is as the
// write believes it to be, so that the number of rows it changed is the check.

const (
	sqlInsertRun = "INSERT INTO runs (" + runColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

	// 10 to 13 are the run and what its row had before; 14 to 19 never change.
	sqlUpdateWhere = " WHERE run = ?10 AND version = ?11 AND next_event = ?12 AND pending = ?13 AND namespace = ?14" +
		" AND workflow_id = ?15 AND run_id = ?16 AND type = ?17 AND started = ?18 AND request = ?19"
	sqlUpdateSet = "UPDATE runs SET status = ?1, attention = ?2, version = ?3, next_event = ?4, pending = ?5," +
		" closed = ?6, state = ?7, sum = ?8"

	// Setting a column costs a write to each index that has it, also where the
	// value stays. A run stays open in most of its updates.
	sqlUpdateStays = sqlUpdateSet + sqlUpdateWhere + " AND open = ?9"
	sqlUpdateTurns = sqlUpdateSet + ", open = ?9" + sqlUpdateWhere

	sqlRunState = "SELECT version, next_event, pending FROM runs WHERE run = ?"
	sqlVersion  = "SELECT version FROM runs WHERE run = ?"

	sqlInsertEvents = "INSERT INTO events (run, first, last, data, sum) VALUES (?, ?, ?, ?, ?)"

	// Two statements and not an upsert, since the counting of pending rows
	// needs to know which of the two it was.
	sqlInsertPending = "INSERT INTO pending (run, op, wake, data, sum) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (run, op) DO NOTHING"
	sqlUpdatePending = "UPDATE pending SET wake = ?3, data = ?4, sum = ?5 WHERE run = ?1 AND op = ?2"
	sqlDeletePending = "DELETE FROM pending WHERE run = ? AND op = ?"

	sqlInsertDedup = "INSERT INTO dedup (namespace, workflow_id, request, run, expires, data, sum) VALUES (?, ?, ?, ?, ?, ?, ?)"

	sqlShard       = "SELECT shard, epoch, next_run, sum FROM shards WHERE shard = ?"
	sqlUpdateShard = "UPDATE shards SET epoch = ?, next_run = ?, sum = ? WHERE shard = ?"
	sqlNewestRun   = "SELECT max(run) FROM runs WHERE run BETWEEN ? AND ?"
)

// The statements that read.
const (
	sqlRun    = "SELECT " + runColumns + " FROM runs WHERE run = ?"
	sqlNewest = "SELECT " + runColumns + " FROM runs WHERE namespace = ?1 AND workflow_id = ?2 AND (?3 = '' OR run_id = ?3)" +
		" ORDER BY run DESC LIMIT 1"
	sqlByRequest = "SELECT " + runColumns + " FROM runs WHERE namespace = ? AND workflow_id = ? AND request = ? ORDER BY run DESC LIMIT 1"
	sqlPending   = "SELECT run, op, wake, data, sum FROM pending WHERE run = ? ORDER BY op"
	sqlDedup     = "SELECT namespace, workflow_id, request, run, expires, data, sum FROM dedup" +
		" WHERE namespace = ? AND workflow_id = ? AND request = ?"
	// Rows without the row of their run.
	sqlOrphans = "SELECT EXISTS (SELECT 1 FROM events WHERE run = ?1) OR EXISTS (SELECT 1 FROM pending WHERE run = ?1)"

	sqlDue = "SELECT wake, run, op FROM pending WHERE run >> 48 = ?1 AND (wake, run, op) > (?2, ?3, ?4) AND wake <= ?5" +
		" ORDER BY wake, run, op LIMIT ?6"
	sqlAttention = "SELECT run FROM runs WHERE attention = 1 AND run > ? AND run <= ? ORDER BY run LIMIT ?"

	// From the row that holds event ?2, or the next if none does.
	sqlEvents = "SELECT run, first, last, data, sum FROM events WHERE run = ?1 AND first >=" +
		" coalesce((SELECT max(first) FROM events WHERE run = ?1 AND first <= ?2), ?2) ORDER BY first"
)

type toPrepare struct {
	into **sql.Stmt
	text string
}

// prepared are the statements of one connection. database/sql does not close
// those of a pinned connection with it, and SQLite keeps a connection with open
// statements, and its locks, although it was closed.
type prepared []*sql.Stmt

// prepare prepares statements once for the connection.
func (ps *prepared) prepare(ctx context.Context, conn *sql.Conn, list []toPrepare) error {
	for _, p := range list {
		st, err := conn.PrepareContext(ctx, p.text)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", p.text, err)
		}
		*p.into = st
		*ps = append(*ps, st)
	}
	return nil
}

// close comes before the Close of the connection.
func (ps *prepared) close() error {
	var errs []error
	for _, st := range *ps {
		errs = append(errs, st.Close())
	}
	*ps = nil
	return errors.Join(errs...)
}
