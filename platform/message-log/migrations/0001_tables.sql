-- The message log, its lanes and their turns. docs/decisions/0002-lanes-and-turns.md explains the design.
--
-- A message is appended once per queue it is routed to and never updated or deleted: history is removed by
-- dropping whole partitions. Only one small row per lane changes, its turn. A lane is the unit of order:
-- (queue, tenant, priority, shard). The worker that holds the lane's lock reads from the position of the
-- lane's last turn and writes the next turn in the transaction that contains the effects, so the turn's
-- primary key also prevents double effects.
--
-- The application role cannot write these tables. It calls the functions of the files that follow, one file
-- per verb; platform/db/src/lock_class.rs lists the advisory locks that they take.

CREATE SEQUENCE onceward.message_seq;

-- One row: the partition that accepts new messages, the version of the topology that the routes below belong
-- to, and the bus. On an external bus a published message is appended to a lane of the outbox queue instead
-- of the lanes of its readers; the relay takes turns there like any consumer, and a message that is received
-- from the bus lands in its reader's lane. docs/decisions/0010-the-bus-is-a-wire.md explains why.
CREATE TABLE onceward.log_state (
    only_row         boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch            int     NOT NULL,
    topology_version bigint  NOT NULL,
    -- Event type -> days. Keys of other types are remembered as long as their partition.
    key_days         jsonb   NOT NULL DEFAULT '{}',
    bus              text    NOT NULL DEFAULT 'postgres'
);
INSERT INTO onceward.log_state (epoch, topology_version)
VALUES (1, 0);

CREATE TABLE onceward.log_epoch (
    epoch       int         PRIMARY KEY,
    opened_at   timestamptz NOT NULL DEFAULT now(),
    closed_at   timestamptz,
    indexed_at  timestamptz,                     -- since when its correlation ids have an index
    index_tries int         NOT NULL DEFAULT 0
);
INSERT INTO onceward.log_epoch (epoch)
VALUES (1);

-- The value of the sequence at a time, recorded by the sweep. A message's clock is read before its number is
-- assigned, so all messages written from then on have higher numbers.
CREATE TABLE onceward.log_mark (
    at  timestamptz PRIMARY KEY,
    seq bigint      NOT NULL
);

CREATE TABLE onceward.exchange (
    name text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('topic', 'direct', 'fanout'))
);

CREATE TABLE onceward.queue (
    id           int      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text     NOT NULL UNIQUE,
    shards       smallint NOT NULL CHECK (shards BETWEEN 1 AND 64),
    max_priority smallint NOT NULL CHECK (max_priority BETWEEN 0 AND 9),
    definition   jsonb    NOT NULL
);
INSERT INTO onceward.queue (name, shards, max_priority, definition)
VALUES ('@outbox', 8, 9, '{"name": "@outbox", "shards": 8, "max_priority": 9}');

CREATE TABLE onceward.binding (
    exchange text NOT NULL REFERENCES onceward.exchange (name),
    queue_id int  NOT NULL REFERENCES onceward.queue (id),
    pattern  text NOT NULL,
    regex    text NOT NULL,
    PRIMARY KEY (exchange, queue_id, pattern)
);

CREATE TABLE onceward.lane (
    id        int      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id  int      NOT NULL REFERENCES onceward.queue (id),
    tenant_id text     NOT NULL,
    priority  smallint NOT NULL,
    shard     smallint NOT NULL,
    UNIQUE (queue_id, tenant_id, priority, shard)
);
SELECT onceward_meta.protect('onceward.lane', '');

-- Lanes of unrouted messages, which have no reader: one per exchange and event type, so that a type with many
-- messages hides no other. The lane -1 is for types beyond the thousandth.
CREATE TABLE onceward.unrouted_lane (
    id         int  GENERATED ALWAYS AS IDENTITY (START WITH -2 INCREMENT BY -1) PRIMARY KEY,
    exchange   text NOT NULL,
    event_type text NOT NULL,
    UNIQUE (exchange, event_type)
);

CREATE TABLE onceward.message_log (
    seq              bigint      NOT NULL,
    xid              xid8        NOT NULL,
    created_at       timestamptz NOT NULL,
    occurred_at      timestamptz,                -- NULL: the same as created_at
    id               uuid        NOT NULL,
    correlation_uuid uuid,                       -- the correlation id, where it is a UUID: it is smaller
    epoch            int         NOT NULL,
    lane_id          int         NOT NULL,       -- 0: it was delayed; below 0: no queue was bound
    copy             smallint    NOT NULL,       -- 0: the outbox row; 1…: further queues it was routed to
    version          smallint    NOT NULL,
    tenant_id        text        NOT NULL,
    event_type       text        NOT NULL,
    topic            text        NOT NULL,
    ordering_key     text,
    idempotency_key  text,                       -- NULL: the id
    correlation_id   text,                       -- the correlation id, where it is anything else
    causation_id     text,
    aggregate_type   text,
    aggregate_id     text,
    headers          json,                       -- json, not jsonb: most are only read back, as text
    payload          json        NOT NULL        -- no CHECK here: every publish would parse it again
) PARTITION BY LIST (epoch);
CREATE INDEX message_log_lane_seq ON onceward.message_log (lane_id, seq);
-- Rows are never updated or deleted and every plan is fixed, so vacuum and analyze have nothing to do in a
-- partition.
CREATE TABLE onceward.message_log_1
    PARTITION OF onceward.message_log FOR VALUES IN (1)
    WITH (autovacuum_enabled = false);
SELECT onceward_meta.protect('onceward.message_log', 'SELECT');

-- The digest of (tenant, idempotency key), for as long as a repeated publish must be recognised: as long as
-- the partition of the log.
CREATE TABLE onceward.message_key (
    digest  uuid   PRIMARY KEY,
    content bigint NOT NULL,                     -- onceward.content_hash of what was published
    epoch   int    NOT NULL
);
CREATE INDEX message_key_epoch ON onceward.message_key USING brin (epoch);

-- The same for event types whose keys are remembered for longer. Types without such a setting have no row
-- here.
CREATE TABLE onceward.lasting_key (
    digest     uuid        PRIMARY KEY,
    content    bigint      NOT NULL,
    keep_until timestamptz NOT NULL
);
CREATE INDEX lasting_key_keep_until ON onceward.lasting_key (keep_until);

CREATE TABLE onceward.lane_turn (
    lane_id       int         NOT NULL,
    turn          bigint      NOT NULL,
    last_seq      bigint      NOT NULL,
    -- Transactions that were still open when the lane was read past them, and the seq above which their
    -- messages must be searched.
    open_xids     xid8[]      NOT NULL,
    open_floors   bigint[]    NOT NULL,
    -- Messages up to here are handled one per turn: a worker died among them.
    careful_until bigint      NOT NULL DEFAULT 0,
    taken_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (lane_id, turn)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- Messages of the log that were cancelled before a reader reached them. The turn that passes one deletes its
-- row, so the table is nearly always empty.
CREATE TABLE onceward.cancelled (
    lane_id int    NOT NULL,
    seq     bigint NOT NULL,
    PRIMARY KEY (lane_id, seq)
);

-- How often a turn was started; more than once means that a worker died or lost its database in it.
CREATE TABLE onceward.turn_start (
    lane_id int    NOT NULL,
    turn    bigint NOT NULL,
    starts  int    NOT NULL,
    PRIMARY KEY (lane_id, turn)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- Quiet turns, those of relays, append nothing: such a turn locks a row here, and the row's xmax is then the
-- id of its transaction. Readers of the outbox find these ids here and need not wait for their messages. Only
-- the owner's functions can lock a row, so no other code can declare that a transaction appends nothing.
-- docs/decisions/0019-quiet-turns-lock-a-row.md explains why.
CREATE TABLE onceward.quiet_turn (
    slot int PRIMARY KEY
);
INSERT INTO onceward.quiet_turn (slot)
SELECT generate_series(0, 63);

-- Messages that cannot be handled now: they wait for a retry or a time, are leased to a worker, or wait
-- behind such a message of the same key. A row contains the whole message, so that no partition has to be
-- kept for it. A dead letter that holds its key has a row in the state `held`, which is never due: followers
-- wait behind it until it is requeued or released.
CREATE TABLE onceward.deferred (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane_id         int         NOT NULL,
    queue_id        int         NOT NULL,
    seq             bigint      NOT NULL,
    state           text        NOT NULL
        CHECK (state IN ('delayed', 'retry', 'waiting', 'unknown', 'parked', 'leased', 'held')),
    due_at          timestamptz,                 -- when it is due; NULL: when its predecessor is settled
    blocks          boolean     NOT NULL,        -- followers with the same key wait behind it
    attempts        int         NOT NULL DEFAULT 0,
    lease           bigint      NOT NULL DEFAULT 0,
    lost            int         NOT NULL DEFAULT 0,  -- leases that expired since it was last settled,
    starts_alone    int         NOT NULL DEFAULT 0,  -- and how often it was then started alone
    worker          text,
    first_error     text,
    last_error      text,
    first_failed_at timestamptz,
    unknown_since   timestamptz,                 -- since when no worker that received it knows its type
    tenant_id       text        NOT NULL,
    ordering_key    text,
    created_at      timestamptz NOT NULL,
    dead_letter_id  bigint,                      -- the dead letter that holds the key; only in `held`
    message         jsonb       NOT NULL
);
CREATE INDEX deferred_due ON onceward.deferred (lane_id, due_at, id)
    WHERE due_at IS NOT NULL;
CREATE INDEX deferred_key ON onceward.deferred (lane_id, ordering_key, id)
    WHERE ordering_key IS NOT NULL AND blocks;
CREATE INDEX deferred_queue_due ON onceward.deferred (queue_id, due_at);
CREATE INDEX deferred_queue_age ON onceward.deferred (queue_id, created_at)
    WHERE state NOT IN ('delayed', 'held');
CREATE INDEX deferred_held ON onceward.deferred (dead_letter_id)
    WHERE dead_letter_id IS NOT NULL;
CREATE INDEX deferred_event ON onceward.deferred (((message->>'id')::uuid));
-- Messages whose type or version no running worker knows.
CREATE INDEX deferred_unknown ON onceward.deferred (queue_id, created_at)
    WHERE state = 'unknown';
SELECT onceward_meta.protect('onceward.deferred', 'SELECT');

CREATE TABLE onceward.dead_letters (
    id                   bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id             uuid        NOT NULL,
    tenant_id            text        NOT NULL,
    queue                text        NOT NULL,
    consumer             text        NOT NULL,
    dead_letter_exchange text,
    event_type           text        NOT NULL,
    version              int         NOT NULL,
    ordering_key         text,
    correlation_id       text        NOT NULL,
    reason               text        NOT NULL,
    attempts             int         NOT NULL,
    first_error          text,
    last_error           text,
    first_failed_at      timestamptz,
    dead_at              timestamptz NOT NULL DEFAULT now(),
    status               text        NOT NULL DEFAULT 'dead'
        CHECK (status IN ('dead', 'requeued', 'quarantined')),
    attempt_log          jsonb       NOT NULL DEFAULT '[]',  -- its onceward.failed_attempt when it died
    message              jsonb       NOT NULL,
    lane_id              int,                    -- where it was taken from; NULL: by the queue's rules
    seq                  bigint      NOT NULL DEFAULT 0,  -- its number in the log; 0 if it never had one
    occurred_at          timestamptz,
    tag                  text                    -- why it is quarantined, as one word
);
CREATE INDEX dead_letters_by_queue ON onceward.dead_letters (queue, status, dead_at);
CREATE INDEX dead_letters_by_tenant ON onceward.dead_letters (tenant_id, dead_at);
CREATE INDEX dead_letters_by_correlation ON onceward.dead_letters (correlation_id);
CREATE INDEX dead_letters_by_event ON onceward.dead_letters (event_id);
CREATE INDEX dead_letters_by_time ON onceward.dead_letters (dead_at, id);
CREATE INDEX dead_letters_by_status ON onceward.dead_letters (status, dead_at, id);
CREATE INDEX dead_letters_by_type ON onceward.dead_letters (event_type, status, dead_at, id);
CREATE INDEX dead_letters_by_reason ON onceward.dead_letters (reason, status, dead_at, id);
SELECT onceward_meta.protect('onceward.dead_letters', 'SELECT');

-- Failed attempts with their times and errors, kept as long as the log. At most twenty are kept per message
-- and queue: the first nineteen and the latest.
CREATE TABLE onceward.failed_attempt (
    event_id  uuid        NOT NULL,
    queue     text        NOT NULL,
    slot      smallint    NOT NULL,
    attempt   int         NOT NULL,
    at        timestamptz NOT NULL,
    error     text        NOT NULL,
    tenant_id text        NOT NULL,
    PRIMARY KEY (event_id, queue, slot)
);
CREATE INDEX failed_attempt_at ON onceward.failed_attempt (at);
SELECT onceward_meta.protect('onceward.failed_attempt', 'SELECT');

CREATE TABLE onceward.inbox (
    consumer        text        NOT NULL,
    tenant_id       text        NOT NULL,
    idempotency_key text        NOT NULL,
    received_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, tenant_id, idempotency_key)
);
CREATE INDEX inbox_received_at ON onceward.inbox USING brin (received_at);
SELECT onceward_meta.protect('onceward.inbox', 'SELECT');

CREATE TABLE onceward.tenant (
    id         text        PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    active     boolean     NOT NULL DEFAULT true
);

CREATE TABLE onceward.schedule (
    name          text        PRIMARY KEY,
    definition    jsonb       NOT NULL,
    next_at       timestamptz NOT NULL,
    last_at       timestamptz,
    failures      int         NOT NULL DEFAULT 0,  -- failed attempts since its ticks were last published,
    failing_since timestamptz,                     -- when the first of them failed,
    last_error    text                             -- and the error of the last one
);

GRANT SELECT ON
    onceward.tenant,
    onceward.queue,
    onceward.exchange,
    onceward.binding,
    onceward.log_state,
    onceward.schedule
TO onceward_app;
