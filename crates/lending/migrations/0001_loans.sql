-- Borrowers, products and loans. Amounts are integer minor units; every key begins with the tenant.

CREATE TABLE lending.borrower_entities (
    tenant_id          text        NOT NULL,
    borrower_entity_id uuid        NOT NULL,
    kind               text        NOT NULL CHECK (kind IN ('person', 'organisation')),
    display_name       text        NOT NULL CHECK (display_name <> ''),
    email              text,
    external_ref       text,
    created_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (borrower_entity_id, tenant_id),
    UNIQUE (external_ref, tenant_id)
);
SELECT onceward_meta.protect('lending.borrower_entities');

-- Old SQL knows borrower_entities by this name. The view sees what its reader may see.
CREATE VIEW lending.borrowers WITH (security_invoker = true) AS SELECT * FROM lending.borrower_entities;
GRANT SELECT ON lending.borrowers TO onceward_app;

-- A product's terms. A version is never changed: a loan keeps the one it was made with.
CREATE TABLE lending.product_policy (
    tenant_id  text        NOT NULL,
    code       text        NOT NULL,
    version    int         NOT NULL CHECK (version > 0),
    policy     jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (code, tenant_id, version)
);
SELECT onceward_meta.protect('lending.product_policy');

CREATE TABLE lending.loan (
    tenant_id          text        NOT NULL,
    loan_id            uuid        NOT NULL,
    borrower_entity_id uuid        NOT NULL,
    product_code       text        NOT NULL,
    product_version    int         NOT NULL,
    -- The policy as it is in force for this loan: the product's, and what a modification changed.
    policy             jsonb       NOT NULL,
    status             text        NOT NULL DEFAULT 'created' CHECK (status IN
                           ('created', 'active', 'in_modification', 'bankruptcy', 'paid_off', 'charged_off', 'closed')),
    principal_minor    bigint      NOT NULL CHECK (principal_minor > 0),
    currency           text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    start_date         date        NOT NULL,
    -- The calendar of the schedule in force. A modification begins a new one, with the next number.
    schedule_no        int         NOT NULL DEFAULT 1 CHECK (schedule_no > 0),
    schedule_start     date        NOT NULL,
    first_due_date     date        NOT NULL CHECK (first_due_date > schedule_start),
    due_day            smallint    NOT NULL CHECK (due_day BETWEEN 1 AND 31),
    funded_on          date,
    -- Interest is posted up to and without this day.
    accrued_to         date,
    -- The daily run has been here for all days before this one.
    serviced_to        date,
    -- What had come in for instalments and for escrow when the schedule in force was made; it paid earlier ones.
    received_before_minor bigint   NOT NULL DEFAULT 0,
    escrow_before_minor   bigint   NOT NULL DEFAULT 0,
    charge_off_event_id   uuid,
    version            int         NOT NULL DEFAULT 1,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    CHECK ((funded_on IS NULL) = (accrued_to IS NULL) AND (funded_on IS NULL) = (serviced_to IS NULL)),
    PRIMARY KEY (loan_id, tenant_id),
    FOREIGN KEY (borrower_entity_id, tenant_id) REFERENCES lending.borrower_entities ON DELETE RESTRICT,
    FOREIGN KEY (product_code, tenant_id, product_version) REFERENCES lending.product_policy ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.loan');
CREATE INDEX loan_of_borrower ON lending.loan (borrower_entity_id, tenant_id);
CREATE INDEX loan_to_service ON lending.loan (tenant_id, serviced_to, loan_id)
    WHERE status IN ('active', 'in_modification', 'bankruptcy');

-- The amortisation schedule in force.
CREATE TABLE lending.instalment (
    tenant_id           text   NOT NULL,
    loan_id             uuid   NOT NULL,
    number              int    NOT NULL CHECK (number > 0),
    due_date            date   NOT NULL,
    payment_minor       bigint NOT NULL,
    interest_minor      bigint NOT NULL,
    principal_minor     bigint NOT NULL,
    escrow_minor        bigint NOT NULL DEFAULT 0,
    balance_after_minor bigint NOT NULL CHECK (balance_after_minor >= 0),
    -- The late fee that is charged, and how often one was, with those that were taken back.
    late_fee_event_id   uuid,
    late_fees           int    NOT NULL DEFAULT 0,
    PRIMARY KEY (loan_id, tenant_id, number),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE CASCADE
);
SELECT onceward_meta.protect('lending.instalment');

-- How a command that was accepted went on: what GET …/status reads.
CREATE TABLE lending.command_status (
    tenant_id      text        NOT NULL,
    correlation_id text        NOT NULL,
    kind           text        NOT NULL,
    subject_id     uuid        NOT NULL,
    state          text        NOT NULL CHECK (state IN ('processing', 'done', 'refused')),
    detail         text,
    -- What makes a command the same as an earlier one. One that was refused may be given again.
    request_key    text,
    -- By the clock, because one transaction may settle several commands about the same thing.
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (correlation_id, tenant_id, kind, subject_id)
);
SELECT onceward_meta.protect('lending.command_status');
CREATE UNIQUE INDEX command_status_once ON lending.command_status (request_key, tenant_id, kind)
    WHERE request_key IS NOT NULL AND state <> 'refused';
CREATE INDEX command_status_of_subject ON lending.command_status (subject_id, tenant_id, updated_at DESC);

-- Features that differ for a tenant from what the settings say.
CREATE TABLE lending.tenant_feature (
    tenant_id text    NOT NULL,
    feature   text    NOT NULL,
    enabled   boolean NOT NULL,
    PRIMARY KEY (feature, tenant_id)
);
SELECT onceward_meta.protect('lending.tenant_feature');
