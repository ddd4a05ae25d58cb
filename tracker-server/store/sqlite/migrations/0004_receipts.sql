-- What nodes have signed. Of a session, receipts counts those that were ever
-- stored; place is a receipt's number among them. Rows of proofs are never
-- removed.
CREATE TABLE receipt_sessions (
    id       TEXT   NOT NULL PRIMARY KEY,
    expires  BIGINT NOT NULL,
    receipts BIGINT NOT NULL
);

CREATE INDEX receipt_sessions_expires ON receipt_sessions (expires);

CREATE TABLE receipts (
    session TEXT   NOT NULL,
    hop     BIGINT NOT NULL,
    seq     BIGINT NOT NULL,
    both    BIGINT NOT NULL,
    place   BIGINT NOT NULL,
    raw     BYTEA  NOT NULL,
    PRIMARY KEY (session, hop, seq, both)
);

CREATE TABLE proofs (
    num       BIGINT NOT NULL PRIMARY KEY,
    id        BYTEA  NOT NULL UNIQUE,
    kind      TEXT   NOT NULL,
    culprit   TEXT   NOT NULL,
    session   TEXT   NOT NULL,
    hop       BIGINT NOT NULL,
    text      TEXT   NOT NULL,
    file      BYTEA  NOT NULL,
    found     BIGINT NOT NULL,
    owner     TEXT   NOT NULL,
    lifted    BIGINT NOT NULL,
    forfeited BIGINT NOT NULL,
    note      TEXT   NOT NULL
);

CREATE INDEX proofs_lifted ON proofs (lifted, num);
