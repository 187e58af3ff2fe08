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

-- The previous name of borrower_entities, for existing queries. Row-level security of the reader applies.
CREATE VIEW lending.borrowers WITH (security_invoker = true) AS SELECT * FROM lending.borrower_entities;
GRANT SELECT ON lending.borrowers TO onceward_app;

-- A product's terms. A version never changes: a loan keeps the one it was created with.
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
    -- The terms in force: the product's, with the changes of later modifications.
    policy             jsonb       NOT NULL,
    status             text        NOT NULL DEFAULT 'created' CHECK (status IN
                           ('created', 'active', 'in_modification', 'bankruptcy', 'paid_off', 'charged_off', 'closed')),
    -- The day from which the status counts (from the start date, if not set) and its actor. Earlier statuses are in
    -- loan_status_change.
    status_since       date,
    status_by          text,
    principal_minor    bigint      NOT NULL CHECK (principal_minor > 0),
    currency           text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    start_date         date        NOT NULL,
    -- The calendar of the schedule in force. A modification starts a new one, with the next number.
    schedule_no        int         NOT NULL DEFAULT 1 CHECK (schedule_no > 0),
    schedule_start     date        NOT NULL,
    first_due_date     date        NOT NULL CHECK (first_due_date > schedule_start),
    due_day            smallint    NOT NULL CHECK (due_day BETWEEN 1 AND 31),
    funded_on          date,
    -- Interest is posted up to but excluding this day.
    accrued_to         date,
    -- The daily run has serviced all days before this one.
    serviced_to        date,
    -- Suspense has been applied to what fell due up to and including this day (up to the funding day, if not set).
    suspense_applied_to date,
    -- Money received for instalments and for escrow before the schedule in force; it paid earlier schedules.
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

-- The status history of a loan. A change counts from its effective date and was recorded at changed_at: reports use the
-- time of recording; late fees and payments use the effective date.
CREATE TABLE lending.loan_status_change (
    tenant_id      text        NOT NULL,
    change_id      uuid        NOT NULL DEFAULT gen_random_uuid(),
    loan_id        uuid        NOT NULL,
    version        int         NOT NULL,
    from_status    text,
    status         text        NOT NULL,
    effective_date date        NOT NULL,
    changed_by     text,
    changed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (change_id, tenant_id),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE CASCADE
);
SELECT onceward_meta.protect('lending.loan_status_change', 'SELECT, INSERT');
CREATE INDEX status_of_loan ON lending.loan_status_change (loan_id, tenant_id, changed_at, version);
CREATE INDEX status_change_arrival ON lending.loan_status_change (changed_at, tenant_id);

-- A trigger, so that every change of a status is in the history.
CREATE FUNCTION lending.note_status() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO lending.loan_status_change
        (tenant_id, loan_id, version, from_status, status, effective_date, changed_by)
    VALUES (
        NEW.tenant_id,
        NEW.loan_id,
        NEW.version,
        CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END,
        NEW.status,
        coalesce(NEW.status_since, NEW.funded_on, NEW.start_date),
        NEW.status_by);
    RETURN NULL;
END
$$;
CREATE TRIGGER status_begins AFTER INSERT ON lending.loan FOR EACH ROW EXECUTE FUNCTION lending.note_status();
CREATE TRIGGER status_changes AFTER UPDATE OF status ON lending.loan
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION lending.note_status();

-- The amortisation schedules. The one with the loan's schedule_no is in force; schedules replaced by a modification are
-- kept.
CREATE TABLE lending.instalment (
    tenant_id           text   NOT NULL,
    loan_id             uuid   NOT NULL,
    schedule_no         int    NOT NULL CHECK (schedule_no > 0),
    number              int    NOT NULL CHECK (number > 0),
    due_date            date   NOT NULL,
    payment_minor       bigint NOT NULL,
    interest_minor      bigint NOT NULL,
    principal_minor     bigint NOT NULL,
    escrow_minor        bigint NOT NULL DEFAULT 0,
    balance_after_minor bigint NOT NULL CHECK (balance_after_minor >= 0),
    -- The late fee in force, and how often one was charged, including reversed ones.
    late_fee_event_id   uuid,
    late_fees           int    NOT NULL DEFAULT 0,
    PRIMARY KEY (loan_id, tenant_id, schedule_no, number),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE CASCADE
);
SELECT onceward_meta.protect('lending.instalment');

-- The status of accepted commands, as GET …/status returns it.
CREATE TABLE lending.command_status (
    tenant_id      text        NOT NULL,
    correlation_id text        NOT NULL,
    kind           text        NOT NULL,
    subject_id     uuid        NOT NULL,
    state          text        NOT NULL CHECK (state IN ('processing', 'done', 'refused')),
    detail         text,
    -- Identifies repetitions of a request. A refused request may be repeated.
    request_key    text,
    -- The clock's time and not the transaction's, because one transaction may settle several commands about a subject.
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (correlation_id, tenant_id, kind, subject_id)
);
SELECT onceward_meta.protect('lending.command_status');
CREATE UNIQUE INDEX command_status_once ON lending.command_status (request_key, tenant_id, kind)
    WHERE request_key IS NOT NULL AND state <> 'refused';
CREATE INDEX command_status_of_subject ON lending.command_status (subject_id, tenant_id, updated_at DESC);

-- Features for which a tenant overrides the settings.
CREATE TABLE lending.tenant_feature (
    tenant_id text    NOT NULL,
    feature   text    NOT NULL,
    enabled   boolean NOT NULL,
    PRIMARY KEY (feature, tenant_id)
);
SELECT onceward_meta.protect('lending.tenant_feature');
