-- What the operator said of nodes and owners. A mark that is not set has the
-- time 0. Rows without a mark are removed.
CREATE TABLE standing (
    kind            TEXT   NOT NULL,
    id              TEXT   NOT NULL,
    approved        BIGINT NOT NULL,
    approved_by     TEXT   NOT NULL,
    approved_reason TEXT   NOT NULL,
    banned          BIGINT NOT NULL,
    banned_by       TEXT   NOT NULL,
    banned_reason   TEXT   NOT NULL,
    drained         BIGINT NOT NULL,
    drained_by      TEXT   NOT NULL,
    drained_reason  TEXT   NOT NULL,
    PRIMARY KEY (kind, id)
);

-- Appended to, never changed.
CREATE TABLE operator_log (
    seq     BIGINT NOT NULL PRIMARY KEY,
    at      BIGINT NOT NULL,
    who     TEXT   NOT NULL,
    action  TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    reason  TEXT   NOT NULL,
    detail  TEXT   NOT NULL,
    failed  TEXT   NOT NULL
);

CREATE INDEX operator_log_subject ON operator_log (subject, seq);
