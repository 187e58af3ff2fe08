-- Failed payments: a rule was broken, or the loan's books refused the posting. The money was received, so it is in the
-- tenant's own books as unapplied cash until an operator applies it, moves it to another loan, or refunds it to its payer.
-- A settled row does not change.
CREATE TABLE lending.unapplied_payment (
    tenant_id     text        NOT NULL,
    payment_id    uuid        NOT NULL,
    amount_minor  bigint      NOT NULL CHECK (amount_minor > 0),
    currency      text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- The rule that the payment broke.
    reason        text        NOT NULL,
    -- The reason given by the loan's books, if all rules were met and the posting was refused.
    detail        text,
    received_on   date        NOT NULL,
    -- The ledger event that booked the money, and the one that released it.
    event_id      uuid        NOT NULL,
    release_id    uuid,
    status        text        NOT NULL DEFAULT 'held' CHECK (status IN ('held', 'applied', 'moved', 'refunded')),
    -- The loan and payment to which it was moved.
    to_loan_id    uuid,
    to_payment_id uuid,
    note          text,
    settled_by    text,
    booked_at     timestamptz NOT NULL DEFAULT now(),
    settled_at    timestamptz,
    CHECK ((status = 'held') = (settled_at IS NULL) AND (status = 'held') = (release_id IS NULL)),
    CHECK ((status = 'moved') = (to_loan_id IS NOT NULL) AND (status = 'moved') = (to_payment_id IS NOT NULL)),
    PRIMARY KEY (payment_id, tenant_id),
    FOREIGN KEY (payment_id, tenant_id) REFERENCES lending.payment_intake ON DELETE RESTRICT,
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT,
    FOREIGN KEY (release_id, tenant_id) REFERENCES ledger.ledger_event (event_id, tenant_id) ON DELETE RESTRICT
);
SELECT onceward_meta.protect('lending.unapplied_payment', 'SELECT, INSERT');
GRANT UPDATE (status, release_id, to_loan_id, to_payment_id, note, settled_by, settled_at)
    ON lending.unapplied_payment TO onceward_app;
CREATE INDEX unapplied_of_tenant ON lending.unapplied_payment (tenant_id, payment_id);
CREATE INDEX unapplied_held ON lending.unapplied_payment (tenant_id, payment_id) WHERE status = 'held';
