-- The payment pipeline: intake, validation, posting. Each payment has one row in each, written once. Later events, such as
-- a repeated posting or a return, have tables of their own.

CREATE TABLE lending.gateway_provider (
    provider_code text PRIMARY KEY,
    display_name  text NOT NULL
);
INSERT INTO lending.gateway_provider VALUES
    ('mock', 'Mock gateway'), ('stripe', 'Stripe'), ('bank', 'Bank file of ACH entries'), ('direct', 'Payments taken by ourselves');
GRANT SELECT ON lending.gateway_provider TO onceward_app;

CREATE TYPE lending.payment_method AS ENUM ('ach', 'card', 'wire', 'check', 'cash', 'other');

-- A tenant's account at a provider, with the secret that its webhooks are signed with.
CREATE TABLE lending.provider_account (
    tenant_id      text NOT NULL,
    provider_code  text NOT NULL REFERENCES lending.gateway_provider,
    webhook_secret text NOT NULL CHECK (length(webhook_secret) >= 16),
    previous_secret text,
    PRIMARY KEY (provider_code, tenant_id)
);
SELECT onceward_meta.protect('lending.provider_account');

CREATE TABLE lending.payment_intake (
    tenant_id       text        NOT NULL,
    payment_id      uuid        NOT NULL,
    -- The loan named by the sender. It may not exist: money reported by a gateway or a bank was received all the same.
    loan_id         uuid        NOT NULL,
    method          lending.payment_method NOT NULL,
    amount_minor    bigint      NOT NULL CHECK (amount_minor > 0),
    currency        text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    received_at     timestamptz NOT NULL,
    gateway_txn_id  text        NOT NULL CHECK (gateway_txn_id <> ''),
    source_provider text        NOT NULL REFERENCES lending.gateway_provider,
    idempotency_key text        NOT NULL CHECK (length(idempotency_key) = 64),
    effective_date  date        NOT NULL,
    -- What it pays first, if the sender requests it: {"bucket": "principal"}.
    allocation_hints jsonb      NOT NULL DEFAULT '{}',
    raw_payload     jsonb       NOT NULL,
    -- The correlation id of the request or message that reported it. The payment's own messages have its key, and from its
    -- posting on its id.
    correlation_id  text        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (payment_id, tenant_id),
    -- One transaction of one provider is one payment. The key does not contain the provider, and two providers may use the
    -- same ids, so the key is unique only together with its provider.
    UNIQUE (gateway_txn_id, tenant_id, source_provider),
    UNIQUE (idempotency_key, tenant_id, source_provider)
);
SELECT onceward_meta.protect('lending.payment_intake');
CREATE INDEX payment_of_loan ON lending.payment_intake (loan_id, tenant_id, effective_date);
CREATE INDEX payment_of_correlation ON lending.payment_intake (correlation_id, tenant_id);

-- Returns the other correlation ids of a payment's story: that of the request that reported it, its key, `payment:<id>`
-- from its posting on, and those of later commands about it. p_correlation is any of them. Without a tenant in the
-- transaction, payments of all tenants are searched.
CREATE FUNCTION lending.linked_stories(p_correlation text, p_limit int) RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH own AS (
        SELECT nullif(current_setting('onceward.tenant_id', true), '') AS tenant_id,
               substring(p_correlation FROM '^payment:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$')::uuid AS payment_id
    ), asked AS (
        -- A command over HTTP has the payment as its subject.
        SELECT c.subject_id AS payment_id, c.tenant_id
        FROM lending.command_status c
        WHERE c.correlation_id = p_correlation
    ), payment AS (
        SELECT i.payment_id, i.tenant_id FROM lending.payment_intake i WHERE i.correlation_id = p_correlation
        UNION
        SELECT i.payment_id, i.tenant_id FROM lending.payment_intake i WHERE i.idempotency_key = p_correlation
        UNION
        SELECT i.payment_id, i.tenant_id FROM own CROSS JOIN lending.payment_intake i WHERE i.payment_id = own.payment_id
        UNION
        SELECT a.payment_id, a.tenant_id FROM asked a
    ), story AS (
        SELECT p.tenant_id, s.id
        FROM payment
        JOIN lending.payment_intake p USING (payment_id, tenant_id)
        CROSS JOIN LATERAL (
            SELECT unnest(ARRAY[p.correlation_id, p.idempotency_key, 'payment:' || p.payment_id])
            UNION
            SELECT c.correlation_id
            FROM lending.command_status c
            WHERE c.subject_id = p.payment_id AND c.tenant_id = p.tenant_id) AS s (id)
    )
    SELECT DISTINCT s.id
    FROM own
    CROSS JOIN story s
    WHERE (own.tenant_id IS NULL OR s.tenant_id = own.tenant_id) AND s.id <> p_correlation
    ORDER BY s.id
    LIMIT p_limit
$$;
REVOKE ALL ON FUNCTION lending.linked_stories(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lending.linked_stories(text, int) TO onceward_app;

-- A hook that decides whether a borrower may pay. Replace it to reject payments; it sees only its transaction's tenant.
CREATE FUNCTION lending.borrower_eligible(p_borrower_entity_id uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT true $$;
REVOKE ALL ON FUNCTION lending.borrower_eligible(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lending.borrower_eligible(uuid) TO onceward_app;

CREATE TABLE lending.payment_validation (
    tenant_id        text        NOT NULL,
    payment_id       uuid        NOT NULL,
    is_valid         boolean     NOT NULL,
    reason           text        CHECK (is_valid = (reason IS NULL)),
    allocation_hints jsonb       NOT NULL DEFAULT '{}',
    validated_at     timestamptz NOT NULL DEFAULT now(),
    effective_date   date        NOT NULL,
    PRIMARY KEY (payment_id, tenant_id),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_intake ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_validation');

CREATE TABLE lending.payment_posting (
    tenant_id    text        NOT NULL,
    payment_id   uuid        NOT NULL,
    event_id     uuid        NOT NULL,
    applied      jsonb       NOT NULL,
    new_balances jsonb       NOT NULL,
    -- Whether the whole payment went to suspense, because of the loan's status on its day. A repeated posting decides this
    -- again.
    held         boolean     NOT NULL,
    posted_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (payment_id, tenant_id),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_intake ON DELETE RESTRICT,
    -- The event and this row are written concurrently and may arrive in any order.
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) DEFERRABLE INITIALLY DEFERRED
);
SELECT onceward_meta.protect('lending.payment_posting');

-- An event took effect before existing postings: those after its day were reversed and posted again.
CREATE TABLE lending.loan_replay (
    tenant_id   text        NOT NULL,
    loan_id     uuid        NOT NULL,
    number      int         NOT NULL CHECK (number > 0),
    from_day    date        NOT NULL,
    -- The reason, and the payment that caused it; a change of status has none.
    because     text        NOT NULL CHECK (because IN ('backdated', 'returned', 'asked_for', 'status_changed')),
    payment_id  uuid        CHECK ((payment_id IS NULL) = (because = 'status_changed')),
    taken_back  int         NOT NULL,
    replayed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (loan_id, tenant_id, number),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.loan_replay', 'SELECT, INSERT');

-- A payment that was posted again, because something before it changed. The highest version is in force; each reverses the
-- ledger event of the previous one, which stays unchanged.
CREATE TABLE lending.payment_repost (
    tenant_id   text        NOT NULL,
    payment_id  uuid        NOT NULL,
    version     int         NOT NULL CHECK (version > 1),
    event_id    uuid        NOT NULL,
    replaces    uuid        NOT NULL,
    reversal_id uuid        NOT NULL,
    applied     jsonb       NOT NULL,
    -- The number of the loan's replay that it belongs to.
    replay      int         NOT NULL,
    reposted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (payment_id, tenant_id, version),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_posting ON DELETE RESTRICT,
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT,
    FOREIGN KEY (reversal_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_repost', 'SELECT, INSERT');

-- A payment that the bank returned. Its day does not change: what it had paid is owed again from that day on.
CREATE TABLE lending.payment_return (
    tenant_id    text        NOT NULL,
    payment_id   uuid        NOT NULL,
    event_id     uuid        NOT NULL,
    reversal_id  uuid        NOT NULL,
    returned_on  date        NOT NULL,
    reason       text        NOT NULL,
    fee_minor    bigint      CHECK (fee_minor > 0),
    fee_event_id uuid,
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (payment_id, tenant_id),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_posting ON DELETE RESTRICT,
    FOREIGN KEY (reversal_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_return', 'SELECT, INSERT');

-- Suspense that was applied to what was due. Like a payment, it is posted again when something before it changes; a version
-- without an event found nothing to pay.
CREATE TABLE lending.suspense_allocation (
    tenant_id      text        NOT NULL,
    allocation_id  uuid        NOT NULL,
    version        int         NOT NULL CHECK (version > 0),
    loan_id        uuid        NOT NULL,
    effective_date date        NOT NULL,
    -- The instalment on whose due date it was applied; not set if an operator requested it.
    schedule_no    int,
    instalment     int,
    CHECK ((schedule_no IS NULL) = (instalment IS NULL)),
    event_id       uuid,
    applied        jsonb       NOT NULL,
    allocated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (allocation_id, tenant_id, version),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE RESTRICT,
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.suspense_allocation', 'SELECT, INSERT');
CREATE UNIQUE INDEX suspense_allocation_once ON lending.suspense_allocation
    (loan_id, tenant_id, schedule_no, instalment, version)
    WHERE instalment IS NOT NULL;
CREATE INDEX suspense_allocation_of_loan ON lending.suspense_allocation (loan_id, tenant_id, effective_date);

-- A gateway's transaction that was sent again with different data. An operator resolves it.
CREATE TABLE lending.payment_conflict (
    tenant_id       text        NOT NULL,
    conflict_id     uuid        NOT NULL,
    payment_id      uuid        NOT NULL,
    -- The key of the conflicting data, so that repeating it is not another conflict.
    idempotency_key text        NOT NULL,
    -- The differing fields: {"amount_minor": {"known": "100", "claimed": "200"}}.
    differs         jsonb       NOT NULL,
    raw_payload     jsonb       NOT NULL,
    seen_at         timestamptz NOT NULL DEFAULT now(),
    last_seen_at    timestamptz NOT NULL DEFAULT now(),
    times           int         NOT NULL DEFAULT 1,
    resolved_at     timestamptz,
    resolution      text        CHECK (resolution IN ('original_stands', 'handled_elsewhere')),
    note            text,
    CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
    PRIMARY KEY (conflict_id, tenant_id),
    UNIQUE (payment_id, tenant_id, idempotency_key),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_intake ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_conflict');
CREATE INDEX open_conflict ON lending.payment_conflict (tenant_id, seen_at) WHERE resolved_at IS NULL;

-- Payment events seen on the bus, once each.
CREATE TABLE lending.payment_event (
    tenant_id   text        NOT NULL,
    event_id    uuid        NOT NULL,
    event_type  text        NOT NULL,
    payment_id  uuid,
    loan_id     uuid        NOT NULL,
    occurred_at timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, tenant_id)
);
SELECT onceward_meta.protect('lending.payment_event', 'SELECT, INSERT');
CREATE INDEX event_of_payment ON lending.payment_event (payment_id, tenant_id, occurred_at);
