package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/engined/engined/engine/store"
)

//go:embed migration/*.sql
var migrationFiles embed.FS

// applicationID marks a file as ours: "engd".
const applicationID = 'e'<<24 | 'n'<<16 | 'g'<<8 | 'd'

// migrations are the files in the order of their numbers, which are 1, 2, ...:
// after the first n of them the schema has number n.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migration/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	texts := make([]string, len(names))
	for i, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migration/"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s stands where number %d should", name, i+1)
		}
		b, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(b)
	}
	return texts, nil
}

// identify tells a new file (schema 0) from ours, and ours from others', before
// anything is written to it.
func (s *Store) identify(ctx context.Context) (schema int, err error) {
	app, err := s.number(ctx, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	version, err := s.number(ctx, "PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	objects, err := s.number(ctx, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return 0, err
	}
	if app == 0 && version == 0 && objects == 0 {
		return 0, nil
	}
	if app != applicationID || version < 1 {
		return 0, &OpenError{s.info.Path, NotOurs,
			"the file is a database of another program: name another file", nil}
	}
	return int(version), nil
}

// migrate brings the file to this build's schema, one transaction a migration.
func (s *Store) migrate(ctx context.Context, schema, shards int) error {
	texts, err := migrations()
	if err != nil {
		return err
	}
	if schema > len(texts) {
		return &OpenError{s.info.Path, Newer, fmt.Sprintf(
			"the file has schema %d, this build knows schemas up to %d: use a newer engined", schema, len(texts)), nil}
	}
	for n := schema + 1; n <= len(texts); n++ {
		if err := s.migrateTo(ctx, n, texts[n-1], shards); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", n, err)
		}
	}
	s.info.Schema = len(texts)
	return nil
}

func (s *Store) migrateTo(ctx context.Context, n int, text string, shards int) error {
	if err := s.do(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := s.do(ctx, text); err != nil {
		return err // the connection is closed, and that rolls back
	}
	if n == 1 {
		if err := s.found(ctx, shards); err != nil {
			return err
		}
	}
	if err := s.do(ctx, fmt.Sprintf("PRAGMA user_version = %d", n)); err != nil {
		return err
	}
	return s.do(ctx, "COMMIT")
}

const metaShards = "shards"

// found writes what a new database starts with.
func (s *Store) found(ctx context.Context, shards int) error {
	if err := s.do(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	err := s.do(ctx, "INSERT INTO meta (name, value, sum) VALUES (?, ?, ?)",
		metaShards, int64(shards), store.MetaSum(metaShards, int64(shards)))
	if err != nil {
		return err
	}
	st, err := s.conn.PrepareContext(ctx, "INSERT INTO shards (shard, epoch, next_run, sum) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer st.Close()
	for i := range shards {
		l := store.Lease{Shard: store.ShardID(i), NextRun: 1}
		if _, err := st.ExecContext(ctx, int64(l.Shard), l.Epoch, l.NextRun, l.Sum()); err != nil {
			return err
		}
	}
	return nil
}
