-- The whole file may be deleted: it holds history that nothing else depends on.
-- Times are microseconds since 1970.
CREATE TABLE session (
  n        INTEGER PRIMARY KEY,
  id       TEXT NOT NULL UNIQUE,
  model    TEXT NOT NULL,
  name     TEXT NOT NULL,
  private  INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  finish   TEXT,           -- NULL while it runs
  code     TEXT,
  hop      INTEGER
);
CREATE INDEX session_updated ON session(updated);
CREATE TABLE phase (
  session INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  phase   TEXT NOT NULL,
  PRIMARY KEY (session, at, phase)
) WITHOUT ROWID;
CREATE TABLE sample (
  session       INTEGER NOT NULL,
  at            INTEGER NOT NULL,
  phase         TEXT NOT NULL,
  prefill_done  INTEGER NOT NULL,
  prefill_total INTEGER NOT NULL,
  tokens        INTEGER NOT NULL,
  rate          REAL NOT NULL,
  first_us      INTEGER NOT NULL,
  hops          TEXT NOT NULL, -- JSON, counters since the start of the session
  PRIMARY KEY (session, at)
) WITHOUT ROWID;
CREATE TABLE minute (
  at       INTEGER PRIMARY KEY,
  tokens   INTEGER NOT NULL,
  prefill  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  ended    INTEGER NOT NULL,
  failed   INTEGER NOT NULL,
  nodes    INTEGER NOT NULL,
  credit   INTEGER NOT NULL,
  dropped  INTEGER NOT NULL
);
