-- Each row has a checksum over its key and content (sum). Times and numbers are
-- what store.go says of them.

-- What the database was created with.
CREATE TABLE meta (
  name  TEXT    NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL,
  sum   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE shards (
  shard    INTEGER PRIMARY KEY,
  epoch    INTEGER NOT NULL,
  next_run INTEGER NOT NULL,
  sum      INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
  run         INTEGER PRIMARY KEY,
  namespace   TEXT    NOT NULL,
  workflow_id TEXT    NOT NULL,
  run_id      TEXT    NOT NULL,
  type        TEXT    NOT NULL,
  status      INTEGER NOT NULL,
  open        INTEGER NOT NULL,
  attention   INTEGER NOT NULL,
  version     INTEGER NOT NULL,
  next_event  INTEGER NOT NULL,
  pending     INTEGER NOT NULL,
  started     INTEGER NOT NULL,
  closed      INTEGER NOT NULL,
  request     TEXT    NOT NULL,
  state       BLOB    NOT NULL,
  sum         INTEGER NOT NULL
) STRICT;

-- The newest run of an id, the one that a request started, and that of a ULID,
-- without a look at the rows of the others.
CREATE UNIQUE INDEX runs_id ON runs (namespace, workflow_id, run, request, run_id);
-- One open run for an id.
CREATE UNIQUE INDEX runs_open ON runs (namespace, workflow_id) WHERE open = 1;
-- By run number within, as the rowid ends every index.
CREATE INDEX runs_attention ON runs (attention) WHERE attention = 1;
CREATE INDEX runs_started ON runs (namespace, started);

-- With a rowid, so that all payloads are appended in one place and only the
-- small index is spread over the runs.
CREATE TABLE events (
  run   INTEGER NOT NULL,
  first INTEGER NOT NULL,
  last  INTEGER NOT NULL,
  data  BLOB    NOT NULL,
  sum   INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_run ON events (run, first);

CREATE TABLE pending (
  run  INTEGER NOT NULL,
  op   TEXT    NOT NULL,
  wake INTEGER NOT NULL,
  data BLOB    NOT NULL,
  sum  INTEGER NOT NULL,
  PRIMARY KEY (run, op)
) STRICT, WITHOUT ROWID;

-- The shard stands in the run number, and so needs no column.
CREATE INDEX pending_due ON pending (run >> 48, wake, run, op);

CREATE TABLE dedup (
  namespace   TEXT    NOT NULL,
  workflow_id TEXT    NOT NULL,
  request     TEXT    NOT NULL,
  run         INTEGER NOT NULL,
  expires     INTEGER NOT NULL,
  data        BLOB    NOT NULL,
  sum         INTEGER NOT NULL,
  PRIMARY KEY (namespace, workflow_id, request)
) STRICT, WITHOUT ROWID;
