-- Reporting windows: which there are, how far their shards are, and what is in them. The facts are in schema reporting.

-- When something that was posted counts, as a moment of its effective day: when it was posted, if that was on the day; the
-- day's last moment if it came later, its first if it was posted ahead.
CREATE FUNCTION lending.business_time(p_posted_at timestamptz, p_effective_date date) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT greatest(p_effective_date::timestamp AT TIME ZONE 'UTC',
        least(p_posted_at, ((p_effective_date + 1)::timestamp - interval '1 microsecond') AT TIME ZONE 'UTC')) $$;

-- Which of so many shards a loan is in; the same on every server.
CREATE FUNCTION lending.etl_shard_of(p_loan_id uuid, p_shards int) RETURNS int
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT (('x' || left(md5(p_loan_id::text), 7))::bit(28)::int % p_shards) $$;

REVOKE ALL ON FUNCTION lending.business_time(timestamptz, date), lending.etl_shard_of(uuid, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lending.business_time(timestamptz, date), lending.etl_shard_of(uuid, int) TO onceward_app;

-- What a loan was when: the loan itself only knows what it is.
CREATE TABLE lending.loan_status_change (
    tenant_id  text        NOT NULL,
    change_id  uuid        NOT NULL DEFAULT gen_random_uuid(),
    loan_id    uuid        NOT NULL,
    version    int         NOT NULL,
    status     text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (change_id, tenant_id),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE CASCADE
);
SELECT onceward_meta.protect('lending.loan_status_change', 'SELECT, INSERT');
CREATE INDEX status_of_loan ON lending.loan_status_change (loan_id, tenant_id, changed_at, version);
CREATE INDEX status_change_arrival ON lending.loan_status_change (changed_at, tenant_id);

INSERT INTO lending.loan_status_change (tenant_id, loan_id, version, status, changed_at)
SELECT tenant_id, loan_id, version, status, updated_at FROM lending.loan;

CREATE FUNCTION lending.note_status() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO lending.loan_status_change (tenant_id, loan_id, version, status)
    VALUES (NEW.tenant_id, NEW.loan_id, NEW.version, NEW.status);
    RETURN NULL;
END
$$;
CREATE TRIGGER status_begins AFTER INSERT ON lending.loan FOR EACH ROW EXECUTE FUNCTION lending.note_status();
CREATE TRIGGER status_changes AFTER UPDATE OF status ON lending.loan
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION lending.note_status();

-- How reporting finds what was posted since it last looked. Every posting pays for it, so it is as small as can be.
CREATE INDEX ledger_event_arrival ON ledger.ledger_event (created_at, tenant_id);

-- How far a tenant is. The length of its windows is that of its first one: others would overlap with those that are there.
CREATE TABLE lending.etl_progress (
    tenant_id      text        NOT NULL PRIMARY KEY,
    window_minutes int         NOT NULL CHECK (window_minutes > 0),
    -- The first window that was not opened yet.
    next_window    timestamptz,
    -- Where the next look at what was posted begins.
    looked_at      timestamptz,
    looked_id      uuid
);
SELECT onceward_meta.protect('lending.etl_progress');

CREATE TABLE lending.etl_window (
    tenant_id    text        NOT NULL,
    window_start timestamptz NOT NULL,
    window_end   timestamptz NOT NULL CHECK (window_end > window_start),
    shards       int         NOT NULL CHECK (shards > 0),
    -- 1 at first; one more whenever late data opened the window again.
    generation   int         NOT NULL DEFAULT 1,
    state        text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'completed')),
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
    -- That of the window when this shard was last asked for. Late data elsewhere does not concern it.
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

-- The loans to which something happened in a window, and how much. The ledger only grows, so as many events are the same events.
CREATE TABLE lending.etl_loan (
    tenant_id    text        NOT NULL,
    window_start timestamptz NOT NULL,
    loan_id      uuid        NOT NULL,
    events       int         NOT NULL,
    -- The window's facts of this loan have yet to be made, or made again.
    stale        boolean     NOT NULL DEFAULT true,
    PRIMARY KEY (window_start, tenant_id, loan_id)
);
SELECT onceward_meta.protect('lending.etl_loan');
CREATE INDEX etl_window_of_loan ON lending.etl_loan (loan_id, tenant_id, window_start);
CREATE INDEX etl_stale ON lending.etl_loan (window_start, tenant_id) WHERE stale;
