-- Reporting windows, their shards and their loans. The facts are in the schema reporting.

-- Returns the business time of a posting, as a moment of its effective day: when it was posted, if that was on the day; the
-- day's last moment if it was posted later, or its first moment if it was posted in advance.
CREATE FUNCTION lending.business_time(p_posted_at timestamptz, p_effective_date date) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT greatest(p_effective_date::timestamp AT TIME ZONE 'UTC',
        least(p_posted_at, ((p_effective_date + 1)::timestamp - interval '1 microsecond') AT TIME ZONE 'UTC')) $$;

-- Returns the shard of a loan; the same on every server.
CREATE FUNCTION lending.etl_shard_of(p_loan_id uuid, p_shards int) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT (('x' || left(md5(p_loan_id::text), 7))::bit(28)::int % p_shards) $$;

REVOKE ALL ON FUNCTION lending.business_time(timestamptz, date), lending.etl_shard_of(uuid, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lending.business_time(timestamptz, date), lending.etl_shard_of(uuid, int) TO onceward_app;

-- For scanning the events posted since the last scan. Every posting maintains this index, so it is as small as possible.
CREATE INDEX ledger_event_arrival ON ledger.ledger_event (created_at, tenant_id);

-- A tenant's progress. All its windows have the length of its first one: windows of another length would overlap.
CREATE TABLE lending.etl_progress (
    tenant_id      text        NOT NULL PRIMARY KEY,
    window_minutes int         NOT NULL CHECK (window_minutes > 0),
    -- The first window that is not opened yet.
    next_window    timestamptz,
    -- The event after which the next scan begins.
    looked_at      timestamptz,
    looked_id      uuid
);
SELECT onceward_meta.protect('lending.etl_progress');

CREATE TABLE lending.etl_window (
    tenant_id    text        NOT NULL,
    window_start timestamptz NOT NULL,
    window_end   timestamptz NOT NULL CHECK (window_end > window_start),
    shards       int         NOT NULL CHECK (shards > 0),
    -- 1 at first; incremented whenever late data reopens the window.
    generation   int         NOT NULL DEFAULT 1,
    state        text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed')),
    -- The time of the schedule tick that opened it; the time to completion is measured from it.
    tick_at      timestamptz NOT NULL,
    opened_at    timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz,
    CHECK ((state = 'completed') = (completed_at IS NOT NULL)),
    PRIMARY KEY (window_start, tenant_id)
);
SELECT onceward_meta.protect('lending.etl_window');

CREATE TABLE lending.etl_shard (
    tenant_id    text        NOT NULL,
    window_start timestamptz NOT NULL,
    shard        int         NOT NULL CHECK (shard >= 0),
    -- The window's generation when this shard was last opened. Late data in other shards does not change it.
    generation   int         NOT NULL,
    state        text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done')),
    loans        int         NOT NULL DEFAULT 0,
    payments     int         NOT NULL DEFAULT 0,
    balances     int         NOT NULL DEFAULT 0,
    done_at      timestamptz,
    CHECK ((state = 'done') = (done_at IS NOT NULL)),
    PRIMARY KEY (window_start, tenant_id, shard),
    FOREIGN KEY (window_start, tenant_id) REFERENCES lending.etl_window ON DELETE CASCADE
);
SELECT onceward_meta.protect('lending.etl_shard');

-- The loans with events in a window, and their number. The ledger only grows, so an equal number means the same events.
CREATE TABLE lending.etl_loan (
    tenant_id    text        NOT NULL,
    window_start timestamptz NOT NULL,
    loan_id      uuid        NOT NULL,
    events       int         NOT NULL,
    -- Whether the window's facts of this loan have to be built, or built again.
    stale        boolean     NOT NULL DEFAULT true,
    PRIMARY KEY (window_start, tenant_id, loan_id)
);
SELECT onceward_meta.protect('lending.etl_loan');
CREATE INDEX etl_window_of_loan ON lending.etl_loan (loan_id, tenant_id, window_start);
CREATE INDEX etl_stale ON lending.etl_loan (window_start, tenant_id) WHERE stale;
