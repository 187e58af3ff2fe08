-- Where a tenant wants to be told what happens.
CREATE TABLE webhooks.endpoint (
    tenant_id       text        NOT NULL,
    endpoint_id     uuid        NOT NULL,
    url             text        NOT NULL CHECK (length(url) <= 2048),
    description     text        NOT NULL DEFAULT '' CHECK (length(description) <= 500),
    event_types     text[]      NOT NULL CHECK (cardinality(event_types) BETWEEN 1 AND 50),
    paused          boolean     NOT NULL DEFAULT false,
    max_per_second  int         CHECK (max_per_second BETWEEN 1 AND 1000),
    -- Up to when its rate is used up.
    used_up_to      timestamptz NOT NULL DEFAULT '-infinity',
    -- The first failure since the last success.
    failing_since   timestamptz,
    disabled_at     timestamptz,
    disabled_reason text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    -- Hidden from now on; it goes away with its deliveries, some at a time.
    deleted_at      timestamptz,
    PRIMARY KEY (endpoint_id, tenant_id),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
);
-- A tenant has few.
CREATE INDEX endpoint_of_tenant ON webhooks.endpoint (tenant_id) WHERE deleted_at IS NULL;
SELECT onceward_meta.protect('webhooks.endpoint', 'SELECT, INSERT, UPDATE');

-- What its messages are signed with: the newest, and those before it until they expire.
CREATE TABLE webhooks.secret (
    tenant_id   text        NOT NULL,
    endpoint_id uuid        NOT NULL,
    number      int         NOT NULL CHECK (number > 0),
    -- Which of the deployment's keys it is encrypted with.
    key_id      text        NOT NULL,
    -- A nonce of 12 bytes, 24 to 64 encrypted bytes, and a tag of 16.
    secret      bytea       NOT NULL CHECK (octet_length(secret) BETWEEN 52 AND 92),
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    PRIMARY KEY (endpoint_id, tenant_id, number),
    FOREIGN KEY (endpoint_id, tenant_id) REFERENCES webhooks.endpoint (endpoint_id, tenant_id) ON DELETE CASCADE
);
SELECT onceward_meta.protect('webhooks.secret');

-- What happened, as it is sent. The body is written once and never changed: every attempt and every endpoint gets these bytes.
CREATE TABLE webhooks.event (
    tenant_id   text        NOT NULL,
    event_id    uuid        NOT NULL,
    event_type  text        NOT NULL,
    body        text        NOT NULL,
    -- The W3C trace that the event belongs to, which requests to endpoints go on with, and what came with it.
    traceparent text        CHECK (length(traceparent) <= 255),
    tracestate  text        CHECK (length(tracestate) <= 512),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, tenant_id)
);
CREATE INDEX event_recorded ON webhooks.event (recorded_at, tenant_id);
SELECT onceward_meta.protect('webhooks.event', 'SELECT, INSERT');

-- One event for one endpoint.
CREATE TABLE webhooks.delivery (
    tenant_id    text        NOT NULL,
    delivery_id  uuid        NOT NULL DEFAULT onceward.uuid_v7(),
    endpoint_id  uuid        NOT NULL,
    event_id     uuid        NOT NULL,
    state        text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    -- When it is tried next. While somebody has it, the end of the lease: who dies with it leaves it to others then.
    due_at       timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz,
    -- Counts the claims. Who comes back with an older number changes nothing.
    lease        int         NOT NULL DEFAULT 0,
    -- Attempts since it was last made pending, by which the next wait is chosen.
    attempts     int         NOT NULL DEFAULT 0,
    -- All attempts.
    tried        int         NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    settled_at   timestamptz,
    PRIMARY KEY (delivery_id, tenant_id),
    UNIQUE (event_id, endpoint_id, tenant_id),
    FOREIGN KEY (endpoint_id, tenant_id) REFERENCES webhooks.endpoint (endpoint_id, tenant_id),
    FOREIGN KEY (event_id, tenant_id) REFERENCES webhooks.event (event_id, tenant_id),
    CHECK ((state = 'pending') = (settled_at IS NULL)),
    CHECK (state = 'pending' OR leased_until IS NULL)
);
CREATE INDEX delivery_due ON webhooks.delivery (endpoint_id, due_at) WHERE state = 'pending';
CREATE INDEX delivery_leased ON webhooks.delivery (endpoint_id) WHERE leased_until IS NOT NULL;
CREATE INDEX delivery_settled ON webhooks.delivery (settled_at) WHERE state <> 'pending';
CREATE INDEX delivery_failed ON webhooks.delivery (settled_at) WHERE state = 'failed';
CREATE INDEX delivery_log ON webhooks.delivery (endpoint_id, delivery_id);
SELECT onceward_meta.protect('webhooks.delivery', 'SELECT, INSERT, UPDATE');

-- One try.
CREATE TABLE webhooks.attempt (
    tenant_id   text        NOT NULL,
    delivery_id uuid        NOT NULL,
    number      int         NOT NULL CHECK (number > 0),
    started_at  timestamptz NOT NULL,
    duration_ms bigint      NOT NULL CHECK (duration_ms >= 0),
    status      int,
    error       text,
    -- The beginning of what came back.
    snippet     text        CHECK (octet_length(snippet) <= 4096),
    PRIMARY KEY (delivery_id, tenant_id, number),
    FOREIGN KEY (delivery_id, tenant_id) REFERENCES webhooks.delivery (delivery_id, tenant_id) ON DELETE CASCADE
);
SELECT onceward_meta.protect('webhooks.attempt', 'SELECT, INSERT');
