-- Entries are kept in batches: decision 13. Times of entries are nanoseconds
-- since 1970, hours are the seconds since 1970 at which they begin, money is
-- nano-dollars. BYTEA is PostgreSQL's word; SQLite keeps what it is given.

-- +goose Up

-- What a gateway brought over at once, of one hour. source and ends say how far
-- the spool's segment had been read, so that nothing comes twice.
CREATE TABLE entry_batches (
    source   TEXT   NOT NULL,
    ends     BIGINT NOT NULL,
    hour     BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    entries  BIGINT NOT NULL,
    head     BYTEA  NOT NULL,
    data     BYTEA  NOT NULL,
    PRIMARY KEY (source, ends, hour)
);
CREATE INDEX entry_batches_hour ON entry_batches (hour, first_at, source, ends);

-- The batches that are not in usage_by_hour yet, and what they will add to
-- balances.
CREATE TABLE pending_batches (
    source  TEXT   NOT NULL,
    ends    BIGINT NOT NULL,
    charges BYTEA  NOT NULL,
    PRIMARY KEY (source, ends)
);

CREATE TABLE usage_by_hour (
    hour               BIGINT NOT NULL,
    tenant             TEXT   NOT NULL,
    key_name           TEXT   NOT NULL,
    user_name          TEXT   NOT NULL,
    model              TEXT   NOT NULL,
    provider           TEXT   NOT NULL,
    target             TEXT   NOT NULL,
    requests           BIGINT NOT NULL,
    input_tokens       BIGINT NOT NULL,
    cached_tokens      BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    output_tokens      BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    cost               BIGINT NOT NULL,
    unpriced           BIGINT NOT NULL,
    PRIMARY KEY (hour, tenant, key_name, user_name, model, provider, target)
);

-- +goose Down
DROP TABLE usage_by_hour;
DROP TABLE pending_batches;
DROP TABLE entry_batches;
