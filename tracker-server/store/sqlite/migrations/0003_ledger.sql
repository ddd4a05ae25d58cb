-- Money, API keys, and who owns which node. Amounts are micro-credits; days
-- count from 1970-01-01 (UTC), hours likewise. Rows of ledger_tx and
-- ledger_lines never change.
CREATE TABLE accounts (
    num     BIGINT NOT NULL PRIMARY KEY,
    id      TEXT   NOT NULL UNIQUE,
    kind    TEXT   NOT NULL,
    name    TEXT   NOT NULL,
    pubkey  BYTEA  NOT NULL,
    created BIGINT NOT NULL,
    closed  BIGINT NOT NULL,
    frozen  BIGINT NOT NULL
);

INSERT INTO accounts (num, id, kind, name, pubkey, created, closed, frozen) VALUES (1, 'house', 'house', '', '', 0, 0, 0);

-- One row: the newest transaction, and the hash over all. Writers take it as
-- their lock, so numbers become valid in order.
CREATE TABLE ledger_head (
    one   BIGINT NOT NULL PRIMARY KEY,
    seq   BIGINT NOT NULL,
    at    BIGINT NOT NULL,
    chain BYTEA  NOT NULL
);

INSERT INTO ledger_head (one, seq, at, chain) VALUES (1, 0, 0, '');

CREATE TABLE ledger_tx (
    seq     BIGINT NOT NULL PRIMARY KEY,
    id      TEXT   NOT NULL UNIQUE,
    kind    TEXT   NOT NULL,
    at      BIGINT NOT NULL,
    session BIGINT NOT NULL,
    digest  BYTEA  NOT NULL,
    note    TEXT   NOT NULL
);

CREATE TABLE ledger_lines (
    seq     BIGINT NOT NULL,
    n       BIGINT NOT NULL,
    account BIGINT NOT NULL,
    book    BIGINT NOT NULL,
    amount  BIGINT NOT NULL,
    hop     BIGINT NOT NULL,
    prefill BIGINT NOT NULL,
    decode  BIGINT NOT NULL,
    PRIMARY KEY (seq, n)
);

CREATE INDEX ledger_lines_account ON ledger_lines (account, seq);

-- The first transaction of each hour that has one.
CREATE TABLE ledger_hours (
    hour BIGINT NOT NULL PRIMARY KEY,
    seq  BIGINT NOT NULL
);

-- A cache of ledger_lines, checked at each start.
CREATE TABLE ledger_balances (
    account BIGINT NOT NULL,
    book    BIGINT NOT NULL,
    amount  BIGINT NOT NULL,
    PRIMARY KEY (account, book)
);

CREATE INDEX ledger_balances_book ON ledger_balances (book, account);

CREATE TABLE ledger_prices (
    version     BIGINT NOT NULL PRIMARY KEY,
    valid_from  BIGINT NOT NULL,
    decode_mib  BIGINT NOT NULL,
    prefill_ppm BIGINT NOT NULL,
    seed_mib    BIGINT NOT NULL,
    fee_ppm     BIGINT NOT NULL
);

CREATE TABLE ledger_sessions (
    num          BIGINT NOT NULL PRIMARY KEY,
    id           TEXT   NOT NULL UNIQUE,
    account      BIGINT NOT NULL,
    api_key      TEXT   NOT NULL,
    model        TEXT   NOT NULL,
    prices       BIGINT NOT NULL,
    prefill      BIGINT NOT NULL,
    decode       BIGINT NOT NULL,
    amount       BIGINT NOT NULL,
    issued       BIGINT NOT NULL,
    expires      BIGINT NOT NULL,
    state        BIGINT NOT NULL,
    ended        BIGINT NOT NULL,
    told_prefill BIGINT NOT NULL,
    told_decode  BIGINT NOT NULL,
    due          BIGINT NOT NULL
);

CREATE INDEX ledger_sessions_due ON ledger_sessions (due);
CREATE INDEX ledger_sessions_state ON ledger_sessions (state);

CREATE TABLE ledger_hops (
    session     BIGINT NOT NULL,
    hop         BIGINT NOT NULL,
    node        TEXT   NOT NULL,
    owner       TEXT   NOT NULL,
    first       BIGINT NOT NULL,
    last        BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    decode_row  BIGINT NOT NULL,
    decode_fee  BIGINT NOT NULL,
    prefill_row BIGINT NOT NULL,
    prefill_fee BIGINT NOT NULL,
    prefill     BIGINT NOT NULL,
    decode      BIGINT NOT NULL,
    PRIMARY KEY (session, hop)
);

CREATE TABLE ledger_spans (
    session BIGINT NOT NULL,
    hop     BIGINT NOT NULL,
    epoch   BIGINT NOT NULL,
    first   BIGINT NOT NULL,
    last    BIGINT NOT NULL,
    seq     BIGINT NOT NULL,
    PRIMARY KEY (session, hop, epoch, first)
);

-- hash is the SHA-256 of the key; the key itself is stored nowhere.
CREATE TABLE api_keys (
    id         TEXT   NOT NULL PRIMARY KEY,
    hash       BYTEA  NOT NULL,
    account    BIGINT NOT NULL,
    name       TEXT   NOT NULL,
    created    BIGINT NOT NULL,
    revoked    BIGINT NOT NULL,
    budget     BIGINT NOT NULL,
    budget_day BIGINT NOT NULL,
    per_minute BIGINT NOT NULL
);

CREATE INDEX api_keys_account ON api_keys (account);

-- The row of day -1 is the total.
CREATE TABLE api_key_spend (
    api_key TEXT   NOT NULL,
    day     BIGINT NOT NULL,
    amount  BIGINT NOT NULL,
    PRIMARY KEY (api_key, day)
);

CREATE TABLE node_owners (
    num     BIGINT NOT NULL PRIMARY KEY,
    node    TEXT   NOT NULL,
    owner   BIGINT NOT NULL,
    binding BYTEA  NOT NULL,
    at      BIGINT NOT NULL,
    ended   BIGINT NOT NULL
);

CREATE INDEX node_owners_node ON node_owners (node);
CREATE INDEX node_owners_owner ON node_owners (owner);

CREATE TABLE pairings (
    hash    BYTEA  NOT NULL PRIMARY KEY,
    owner   BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    node    TEXT   NOT NULL,
    offer   BYTEA  NOT NULL,
    done    BIGINT NOT NULL
);

CREATE INDEX pairings_owner ON pairings (owner);
