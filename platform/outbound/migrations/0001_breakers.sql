-- Breakers that are not simply closed, and the processes that use each destination. Rows belong to no tenant: a
-- credential is stored as a digest only.

-- One row per destination and credential about which something is remembered: a vote, an opening, an isolation. The
-- state is written by the rule in platform/resilience/src/cluster.rs, under the row's lock.
CREATE TABLE outbound.breaker (
    destination text        NOT NULL CHECK (destination <> '' AND length(destination) <= 255),
    credential  text        NOT NULL CHECK (length(credential) <= 64),
    state       jsonb       NOT NULL,
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (destination, credential)
);

-- The processes that called a destination lately. They count for the quorum of its breakers.
CREATE TABLE outbound.process (
    destination text        NOT NULL CHECK (destination <> '' AND length(destination) <= 255),
    process     text        NOT NULL CHECK (process <> '' AND length(process) <= 255),
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (destination, process)
);

GRANT USAGE ON SCHEMA outbound TO onceward_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON outbound.breaker, outbound.process TO onceward_app;
