-- Tables of external buses: what relays published, and what was received.

-- What relays have published: up to which number of a lane, and when. One row per turn.
CREATE TABLE onceward.relay_batch (
    lane_id      int         NOT NULL,
    last_seq     bigint      NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lane_id, last_seq)
);
CREATE INDEX relay_batch_published_at ON onceward.relay_batch USING brin (published_at);

-- The state of the bus as each relay last reported it.
CREATE TABLE onceward.relay_state (
    relay      text        PRIMARY KEY,
    bus        text        NOT NULL,
    up         boolean     NOT NULL,
    since      timestamptz NOT NULL,
    last_error text,
    seen_at    timestamptz NOT NULL
);
GRANT SELECT ON onceward.relay_state TO onceward_app;

-- Messages that were cancelled on their way over an external bus: they are not handled when they arrive. Kept
-- as long as the log.
CREATE TABLE onceward.cancelled_arrival (
    event_id  uuid        NOT NULL,
    queue     text        NOT NULL,
    tenant_id text        NOT NULL,
    actor     text        NOT NULL,
    why       text        NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (event_id, queue)
);
SELECT onceward_meta.protect('onceward.cancelled_arrival', '');

-- The positions of readers of a bus that keeps messages after they were read. A position is written in the
-- commit that lands the messages before it: whatever the bus forgets, nothing lands twice
-- (docs/decisions/0021-positions-and-backlogs.md). Queues and sources have their names on the bus.
CREATE TABLE onceward.bus_position (
    queue       text        NOT NULL,
    source      text        NOT NULL,
    partition   int         NOT NULL,
    next_offset bigint      NOT NULL,
    last_ms     bigint      NOT NULL,
    written_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, source, partition)
);

-- How many messages of a queue landed from a bus that cannot report the age of waiting messages,
CREATE TABLE onceward.bus_landed (
    queue  text   PRIMARY KEY,
    landed bigint NOT NULL
);

-- and the observations of such a queue: when it was last observed, since when messages wait, and a mark,
-- which is the number that waited at one moment and the number that had landed by then.
CREATE TABLE onceward.bus_backlog (
    queue        text        PRIMARY KEY,
    checked_at   timestamptz NOT NULL,
    oldest_at    timestamptz,
    mark_at      timestamptz NOT NULL,
    mark_waiting bigint      NOT NULL,
    mark_landed  bigint      NOT NULL
);
