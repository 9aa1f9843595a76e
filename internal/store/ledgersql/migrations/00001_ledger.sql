-- One set for SQLite and PostgreSQL. Times are nanoseconds since 1970, money is
-- nano-dollars: whole numbers, so that sums are exact.

-- +goose Up
CREATE TABLE entries (
    id                 TEXT     NOT NULL PRIMARY KEY,
    at                 BIGINT   NOT NULL,
    request_id         TEXT     NOT NULL,
    key_name           TEXT     NOT NULL,
    tenant             TEXT     NOT NULL,
    user_name          TEXT     NOT NULL,
    model              TEXT     NOT NULL,
    provider           TEXT     NOT NULL,
    target             TEXT     NOT NULL,
    dialect            TEXT     NOT NULL,
    op                 TEXT     NOT NULL,
    outcome            TEXT     NOT NULL,
    status             INTEGER  NOT NULL,
    input_tokens       BIGINT   NOT NULL,
    cached_tokens      BIGINT   NOT NULL,
    cache_write_tokens BIGINT   NOT NULL,
    output_tokens      BIGINT   NOT NULL,
    reasoning_tokens   BIGINT   NOT NULL,
    estimated          SMALLINT NOT NULL,
    cost               BIGINT   NOT NULL,
    priced             SMALLINT NOT NULL
);
CREATE INDEX entries_at ON entries (at, id);
CREATE INDEX entries_tenant_at ON entries (tenant, at);
CREATE INDEX entries_key_at ON entries (key_name, at);
CREATE INDEX entries_model_at ON entries (model, at);

CREATE TABLE balances (
    scope  TEXT   NOT NULL,
    period BIGINT NOT NULL,
    used   BIGINT NOT NULL,
    PRIMARY KEY (scope, period)
);

-- +goose Down
DROP TABLE balances;
DROP TABLE entries;
