-- Numeric audits that have ended. Class, measures and error are JSON; measures
-- is '' for one that failed, and error for one that did not.
CREATE TABLE audits (
    id        TEXT   NOT NULL PRIMARY KEY,
    session   TEXT   NOT NULL,
    model     TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    hop       BIGINT NOT NULL,
    first     BIGINT NOT NULL,
    last      BIGINT NOT NULL,
    node      TEXT   NOT NULL,
    auditor   TEXT   NOT NULL,
    begun     BIGINT NOT NULL,
    ended     BIGINT NOT NULL,
    class     TEXT   NOT NULL,
    measures  TEXT   NOT NULL,
    code      TEXT   NOT NULL,
    error     TEXT   NOT NULL
);

CREATE INDEX audits_ended ON audits (ended);
