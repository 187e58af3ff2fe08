-- Disbursements out of escrow: requested, then disbursed or refused. A settled row does not change.
CREATE TABLE lending.escrow_disbursement (
    tenant_id       text        NOT NULL,
    disbursement_id uuid        NOT NULL,
    loan_id         uuid        NOT NULL,
    payee_name      text        NOT NULL CHECK (payee_name <> ''),
    payee_reference text        NOT NULL,
    amount_minor    bigint      NOT NULL CHECK (amount_minor > 0),
    currency        text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    purpose         text        NOT NULL CHECK (purpose IN ('tax', 'insurance', 'other')),
    effective_date  date        NOT NULL,
    -- The day by which the payee must receive it, if known.
    due_date        date,
    status          text        NOT NULL DEFAULT 'requested' CHECK (status IN ('requested', 'disbursed', 'refused')),
    reason          text,
    event_id        uuid,
    requested_at    timestamptz NOT NULL DEFAULT now(),
    settled_at      timestamptz,
    CHECK ((status = 'refused') = (reason IS NOT NULL)),
    CHECK ((status = 'disbursed') = (event_id IS NOT NULL)),
    CHECK ((status = 'requested') = (settled_at IS NULL)),
    PRIMARY KEY (disbursement_id, tenant_id),
    FOREIGN KEY (loan_id, tenant_id) REFERENCES lending.loan ON DELETE RESTRICT,
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.escrow_disbursement', 'SELECT, INSERT');
GRANT UPDATE (status, reason, event_id, settled_at) ON lending.escrow_disbursement TO onceward_app;
CREATE INDEX disbursement_of_loan ON lending.escrow_disbursement (loan_id, tenant_id, disbursement_id);
