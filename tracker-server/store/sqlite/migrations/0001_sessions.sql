-- Times are microseconds since 1970, 0 for "not yet".
CREATE TABLE nodes (
    id         TEXT   NOT NULL PRIMARY KEY,
    role       TEXT   NOT NULL,
    addr       TEXT   NOT NULL,
    host       TEXT   NOT NULL,
    engine     TEXT   NOT NULL,
    llama      TEXT   NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen  BIGINT NOT NULL
);

CREATE INDEX nodes_last_seen ON nodes (last_seen);

-- The row of node '' is the lowest epoch that an unknown node may have had.
CREATE TABLE epochs (
    node  TEXT   NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL
);

CREATE TABLE sessions (
    id        TEXT   NOT NULL PRIMARY KEY,
    driver    TEXT   NOT NULL,
    model     TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    lease     TEXT   NOT NULL,
    cost_us   BIGINT NOT NULL,
    kv_bytes  TEXT   NOT NULL,
    issued    BIGINT NOT NULL,
    phase     TEXT   NOT NULL,
    telemetry TEXT   NOT NULL,
    ended     BIGINT NOT NULL,
    finish    TEXT   NOT NULL,
    end_code  TEXT   NOT NULL,
    error     TEXT   NOT NULL
);

CREATE INDEX sessions_ended ON sessions (ended);
CREATE INDEX sessions_issued ON sessions (issued);
