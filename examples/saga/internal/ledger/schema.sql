-- What a service promises about: one line a key.
CREATE TABLE IF NOT EXISTS keys (
  key      TEXT PRIMARY KEY,
  endpoint TEXT NOT NULL,
  digest   TEXT NOT NULL, -- of the request; empty when the key was sealed unseen
  fence    INTEGER NOT NULL, -- the highest that was seen
  state    TEXT NOT NULL, -- done, refused, sealed, undone
  status   INTEGER NOT NULL, -- with answer: what the call was told, and is told again
  answer   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What happened, in the order of commits.
CREATE TABLE IF NOT EXISTS rows (
  n           INTEGER PRIMARY KEY,
  time        INTEGER NOT NULL, -- ns since 1970
  kind        TEXT NOT NULL,
  key         TEXT NOT NULL,
  forward_key TEXT NOT NULL,
  fence       INTEGER NOT NULL,
  ref         TEXT NOT NULL, -- the order
  cents       INTEGER NOT NULL,
  sku         TEXT NOT NULL,
  quantity    INTEGER NOT NULL,
  code        TEXT NOT NULL,
  claim       TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS rows_key ON rows (key);

CREATE TABLE IF NOT EXISTS shelves (
  sku     TEXT PRIMARY KEY,
  initial INTEGER NOT NULL,
  remain  INTEGER NOT NULL CHECK (remain BETWEEN 0 AND initial)
) STRICT, WITHOUT ROWID;

-- The weather, not the service: who has called how often, what the network
-- holds back, and which faults have happened.
CREATE TABLE IF NOT EXISTS arrivals (
  endpoint TEXT NOT NULL,
  key      TEXT NOT NULL,
  ordinal  INTEGER NOT NULL, -- 0: the key meets no faults
  tries    INTEGER NOT NULL,
  held     INTEGER NOT NULL, -- calls held back until the undo, ever
  PRIMARY KEY (endpoint, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS held (
  id       INTEGER PRIMARY KEY,
  endpoint TEXT NOT NULL,
  key      TEXT NOT NULL,
  fence    INTEGER NOT NULL,
  body     BLOB NOT NULL,
  try      INTEGER NOT NULL,
  due      INTEGER -- ns since 1970; NULL: after the undo
) STRICT;

CREATE TABLE IF NOT EXISTS faults (
  n        INTEGER PRIMARY KEY,
  time     INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  key      TEXT NOT NULL,
  try      INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS starts (n INTEGER PRIMARY KEY, time INTEGER NOT NULL) STRICT;
