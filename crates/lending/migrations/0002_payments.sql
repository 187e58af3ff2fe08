-- The payment pipeline: intake, validation, posting. Each payment has one row in each, written once.

CREATE TABLE lending.gateway_provider (
    provider_code text PRIMARY KEY,
    display_name  text NOT NULL
);
INSERT INTO lending.gateway_provider VALUES
    ('mock', 'Mock gateway'), ('stripe', 'Stripe'), ('bank', 'Bank file of ACH entries'), ('direct', 'Payments taken by ourselves');

CREATE TYPE lending.payment_method AS ENUM ('ach', 'card', 'wire', 'check', 'cash', 'other');

-- A tenant's account at a provider, with the secret that its webhooks are signed with.
CREATE TABLE lending.provider_account (
    tenant_id      text NOT NULL,
    provider_code  text NOT NULL REFERENCES lending.gateway_provider,
    webhook_secret text NOT NULL CHECK (length(webhook_secret) >= 16),
    previous_secret text,
    PRIMARY KEY (tenant_id, provider_code)
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
    raw_payload     jsonb       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, payment_id),
    UNIQUE (tenant_id, source_provider, gateway_txn_id),
    UNIQUE (tenant_id, idempotency_key),
    FOREIGN KEY (tenant_id, loan_id) REFERENCES lending.loan ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_intake');
CREATE INDEX payment_of_loan ON lending.payment_intake (tenant_id, loan_id, effective_date);

CREATE TABLE lending.payment_validation (
    tenant_id        text        NOT NULL,
    payment_id       uuid        NOT NULL,
    is_valid         boolean     NOT NULL,
    reason           text        CHECK (is_valid = (reason IS NULL)),
    allocation_hints jsonb       NOT NULL DEFAULT '{}',
    validated_at     timestamptz NOT NULL DEFAULT now(),
    effective_date   date        NOT NULL,
    PRIMARY KEY (tenant_id, payment_id),
    FOREIGN KEY (tenant_id, payment_id) REFERENCES lending.payment_intake ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_validation');

CREATE TABLE lending.payment_posting (
    tenant_id    text        NOT NULL,
    payment_id   uuid        NOT NULL,
    event_id     uuid        NOT NULL,
    applied      jsonb       NOT NULL,
    new_balances jsonb       NOT NULL,
    posted_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, payment_id),
    FOREIGN KEY (tenant_id, payment_id) REFERENCES lending.payment_intake ON DELETE RESTRICT,
    FOREIGN KEY (tenant_id, event_id) REFERENCES ledger.ledger_event ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_posting');

-- A gateway's transaction that came again and said something else. An operator decides.
CREATE TABLE lending.payment_conflict (
    tenant_id      text        NOT NULL,
    conflict_id    uuid        NOT NULL,
    payment_id     uuid        NOT NULL,
    differs        jsonb       NOT NULL,
    raw_payload    jsonb       NOT NULL,
    seen_at        timestamptz NOT NULL DEFAULT now(),
    resolved_at    timestamptz,
    resolution     text,
    PRIMARY KEY (tenant_id, conflict_id),
    FOREIGN KEY (tenant_id, payment_id) REFERENCES lending.payment_intake ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.payment_conflict');
CREATE INDEX open_conflict ON lending.payment_conflict (tenant_id, seen_at) WHERE resolved_at IS NULL;
