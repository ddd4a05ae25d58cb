-- Published models. Whoever changes a row also counts the one row of
-- catalog_version up, so that a running tracker sees the work of others.
CREATE TABLE catalog (
    model           TEXT   NOT NULL PRIMARY KEY,
    name            TEXT   NOT NULL,
    info_hash       TEXT   NOT NULL,
    private         BIGINT NOT NULL,
    webseeds        TEXT   NOT NULL,
    published       BIGINT NOT NULL,
    manifest_sha256 TEXT   NOT NULL,
    torrent_sha256  TEXT   NOT NULL,
    manifest        BYTEA  NOT NULL,
    torrent         BYTEA  NOT NULL
);

CREATE INDEX catalog_info_hash ON catalog (info_hash);

CREATE TABLE catalog_version (
    one     BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);

INSERT INTO catalog_version (one, version) VALUES (1, 0);
