-- Tables of what operators do and set: acts on dead letters, pauses and rate limits of queues, worker pools.

-- The actions on dead letters: who, what and why. Append-only.
CREATE TABLE onceward.dead_letter_act (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dead_letter_id bigint      NOT NULL,
    tenant_id      text        NOT NULL,           -- of the letter, which may be deleted before its history,
    queue          text        NOT NULL,           -- like these three
    event_type     text        NOT NULL,
    version        int         NOT NULL,
    act            text        NOT NULL
        CHECK (act IN ('requeued', 'quarantined', 'collected', 'released', 'cancelled')),
    actor          text        NOT NULL CHECK (actor <> ''),
    why            text        NOT NULL CHECK (why <> ''),
    tag            text,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    detail         jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX dead_letter_act_by_letter ON onceward.dead_letter_act (dead_letter_id, id);
CREATE INDEX dead_letter_act_by_tenant ON onceward.dead_letter_act (tenant_id, id);
SELECT onceward_meta.protect('onceward.dead_letter_act', '');

-- Refuses to change or delete rows of a table that is append-only.
CREATE FUNCTION onceward.refuse_rewriting() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'the history in %.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'OW003';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON onceward.dead_letter_act
    FOR EACH STATEMENT EXECUTE FUNCTION onceward.refuse_rewriting();
ALTER TABLE onceward.dead_letter_act ENABLE ALWAYS TRIGGER append_only;

-- A pause of a queue, or of one tenant in it. Readers load pauses and rate limits when they change and twice
-- a second (platform/message-log/src/controls/mod.rs); a message costs nothing more than without them.
CREATE TABLE onceward.queue_pause (
    queue_id  int         NOT NULL REFERENCES onceward.queue (id),
    tenant_id text        NOT NULL,                -- empty: every tenant
    ends_at   timestamptz NOT NULL,
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_by text        NOT NULL,
    why       text        NOT NULL,
    PRIMARY KEY (queue_id, tenant_id)
);
SELECT onceward_meta.protect('onceward.queue_pause', '');

-- A token bucket: `permits` were left at `filled_at`, and `per_second` are added until there are `burst`.
CREATE TABLE onceward.queue_rate (
    queue_id   int              NOT NULL REFERENCES onceward.queue (id),
    tenant_id  text             NOT NULL,          -- empty: every tenant together
    per_second double precision NOT NULL CHECK (per_second > 0),
    burst      int              NOT NULL CHECK (burst > 0),
    permits    double precision NOT NULL,
    filled_at  timestamptz      NOT NULL DEFAULT clock_timestamp(),
    set_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    set_by     text             NOT NULL,
    why        text             NOT NULL,
    PRIMARY KEY (queue_id, tenant_id)
);
SELECT onceward_meta.protect('onceward.queue_rate', '');

-- A worker pool: its settings, its size over all processes, and the figures that it is decided by.
CREATE TABLE onceward.pool (
    name              text             PRIMARY KEY,
    declared          jsonb            NOT NULL,   -- the settings in the code
    settings          jsonb            NOT NULL,   -- the settings in force, of the code or of an operator
    set_by            text,                        -- NULL: the settings in force are those of the code
    size              int              NOT NULL,
    state             jsonb            NOT NULL,   -- what the next decision must know
    next_check_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    checked_at        timestamptz,
    completed         bigint           NOT NULL DEFAULT 0,
    failed            bigint           NOT NULL DEFAULT 0,
    busy_ms           double precision NOT NULL DEFAULT 0,
    last_completed_at timestamptz,
    last_failed_at    timestamptz,
    -- The figures of the last decision, and the counts that the next one compares with.
    figures           jsonb            NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

-- The processes that run workers of a pool.
CREATE TABLE onceward.pool_member (
    pool      text        NOT NULL REFERENCES onceward.pool (name) ON DELETE CASCADE,
    process   text        NOT NULL,
    active    int         NOT NULL,
    blocked   text,                                -- why more workers could not do more now
    joined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at   timestamptz NOT NULL,
    PRIMARY KEY (pool, process)
) WITH (fillfactor = 50);

-- The changes of a pool's size.
CREATE TABLE onceward.pool_decision (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool      text        NOT NULL REFERENCES onceward.pool (name) ON DELETE CASCADE,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    from_size int         NOT NULL,
    to_size   int         NOT NULL,
    reason    text        NOT NULL
);
CREATE INDEX pool_decision_by_pool ON onceward.pool_decision (pool, id);
