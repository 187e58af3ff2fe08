-- The payment pipeline: intake, validation, posting. Each payment has one row in each, written once. What happens to it
-- afterwards (it is posted again, it comes back) stands in rows beside these.

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
    loan_id         uuid        NOT NULL,
    method          lending.payment_method NOT NULL,
    amount_minor    bigint      NOT NULL CHECK (amount_minor > 0),
    currency        text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    received_at     timestamptz NOT NULL,
    gateway_txn_id  text        NOT NULL CHECK (gateway_txn_id <> ''),
    source_provider text        NOT NULL REFERENCES lending.gateway_provider,
    idempotency_key text        NOT NULL CHECK (length(idempotency_key) = 64),
    effective_date  date        NOT NULL,
    -- What it shall pay first, if its sender says so: {"bucket": "principal"}.
    allocation_hints jsonb      NOT NULL DEFAULT '{}',
    raw_payload     jsonb       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (payment_id, tenant_id),
    UNIQUE (gateway_txn_id, tenant_id, source_provider),
    UNIQUE (idempotency_key, tenant_id),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_intake');
CREATE INDEX payment_of_loan ON lending.payment_intake (loan_id, tenant_id, effective_date);

-- The hook for who may pay. Replace it to say no; it sees its transaction's tenant only.
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
    -- It went to suspense as a whole, because of what the loan was then; so it does when it is posted again.
    held         boolean     NOT NULL,
    posted_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (payment_id, tenant_id),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_intake ON DELETE RESTRICT,
    -- The event and this row travel together and may come in any order.
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) DEFERRABLE INITIALLY DEFERRED
);
SELECT onceward_meta.protect('lending.payment_posting');

-- Something took effect before what was posted already: what came after that day was taken back and posted again.
CREATE TABLE lending.loan_replay (
    tenant_id   text        NOT NULL,
    loan_id     uuid        NOT NULL,
    number      int         NOT NULL CHECK (number > 0),
    from_day    date        NOT NULL,
    -- 'backdated', 'returned' or 'asked_for', and the payment that it was.
    because     text        NOT NULL CHECK (because IN ('backdated', 'returned', 'asked_for')),
    payment_id  uuid        NOT NULL,
    taken_back  int         NOT NULL,
    replayed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (loan_id, tenant_id, number),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.loan_replay', 'SELECT, INSERT');

-- A payment that was posted again, because something before it changed. The highest version is the one in force; each
-- reverses the ledger event of the one before, which stays as it was.
CREATE TABLE lending.payment_repost (
    tenant_id   text        NOT NULL,
    payment_id  uuid        NOT NULL,
    version     int         NOT NULL CHECK (version > 1),
    event_id    uuid        NOT NULL,
    replaces    uuid        NOT NULL,
    reversal_id uuid        NOT NULL,
    applied     jsonb       NOT NULL,
    -- The replay of its loan that it is part of.
    replay      int         NOT NULL,
    reposted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (payment_id, tenant_id, version),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_posting ON DELETE RESTRICT,
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT,
    FOREIGN KEY (reversal_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_repost', 'SELECT, INSERT');

-- A payment that the bank took back. Its day does not change: what it had paid is open again from that day on.
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

-- Money from suspense that paid what was due. Like payments, it is posted again when something before it changed; a
-- version without an event found nothing to pay.
CREATE TABLE lending.suspense_allocation (
    tenant_id      text        NOT NULL,
    allocation_id  uuid        NOT NULL,
    version        int         NOT NULL CHECK (version > 0),
    loan_id        uuid        NOT NULL,
    effective_date date        NOT NULL,
    event_id       uuid,
    applied        jsonb       NOT NULL,
    allocated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (allocation_id, tenant_id, version),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE RESTRICT,
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.suspense_allocation', 'SELECT, INSERT');
CREATE INDEX suspense_allocation_of_loan ON lending.suspense_allocation (loan_id, tenant_id, effective_date);

-- A gateway's transaction that came again and said something else. An operator decides.
CREATE TABLE lending.payment_conflict (
    tenant_id       text        NOT NULL,
    conflict_id     uuid        NOT NULL,
    payment_id      uuid        NOT NULL,
    -- The key of what was said, so that saying it again is not another conflict.
    idempotency_key text        NOT NULL,
    -- What differs: {"amount_minor": {"known": "100", "claimed": "200"}}.
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

-- The facts about payments that were seen on the bus, once each.
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
