-- The facts that reports read, by window. Jobs build them, and build them again when late data belongs to a window. Treat
-- these tables as read-only: manual changes are lost with the next generation of their window.
--
-- Each loan with an event in a window has a fact. Amounts are integer minor units.

CREATE TABLE reporting.loan_fact (
    tenant_id          text        NOT NULL,
    window_start       timestamptz NOT NULL,
    loan_id            uuid        NOT NULL,
    shard              int         NOT NULL,
    borrower_entity_id uuid        NOT NULL,
    product_code       text        NOT NULL,
    product_version    int         NOT NULL,
    currency           text        NOT NULL,
    principal_minor    bigint      NOT NULL,
    -- The status at the window's end. None if the loan was created later and its events were backdated.
    status             text,
    -- The number of ledger events and status changes.
    events             int         NOT NULL,
    -- The totals of the window: paid out to the borrower, interest and fees earned, received by payments less returns, paid
    -- out of escrow, charged off.
    funded_minor       bigint      NOT NULL,
    interest_minor     bigint      NOT NULL,
    fees_minor         bigint      NOT NULL,
    received_minor     bigint      NOT NULL,
    escrow_paid_minor  bigint      NOT NULL,
    charged_off_minor  bigint      NOT NULL,
    PRIMARY KEY (tenant_id, window_start, loan_id)
);
SELECT onceward_meta.protect('reporting.loan_fact', 'SELECT, INSERT, DELETE');

-- A payment in the ledger, or the reversal of one, which has its amounts with the opposite sign. A payment that was posted
-- again because something before it changed has a reversal and a second fact.
CREATE TABLE reporting.payment_fact (
    tenant_id        text        NOT NULL,
    window_start     timestamptz NOT NULL,
    event_id         uuid        NOT NULL,
    loan_id          uuid        NOT NULL,
    shard            int         NOT NULL,
    payment_id       uuid,
    kind             text        NOT NULL CHECK (kind IN ('posted', 'taken_back')),
    effective_date   date        NOT NULL,
    posted_at        timestamptz NOT NULL,
    currency         text        NOT NULL,
    amount_minor     bigint      NOT NULL,
    to_fees_minor      bigint    NOT NULL,
    to_interest_minor  bigint    NOT NULL,
    to_principal_minor bigint    NOT NULL,
    to_escrow_minor    bigint    NOT NULL,
    to_suspense_minor  bigint    NOT NULL,
    PRIMARY KEY (tenant_id, window_start, event_id)
);
SELECT onceward_meta.protect('reporting.payment_fact', 'SELECT, INSERT, DELETE');

-- The balance of each account of the loan at the window's end, as debits less credits, and its change within the window.
-- Accounts without a balance and without a change are omitted.
CREATE TABLE reporting.balance_fact (
    tenant_id     text        NOT NULL,
    window_start  timestamptz NOT NULL,
    loan_id       uuid        NOT NULL,
    account       text        NOT NULL COLLATE "C",
    currency      text        NOT NULL COLLATE "C",
    shard         int         NOT NULL,
    window_end    timestamptz NOT NULL,
    moved_minor   bigint      NOT NULL,
    balance_minor bigint      NOT NULL,
    PRIMARY KEY (tenant_id, window_start, loan_id, account, currency)
);
SELECT onceward_meta.protect('reporting.balance_fact', 'SELECT, INSERT, DELETE');
CREATE INDEX balance_of_loan ON reporting.balance_fact (tenant_id, loan_id, account, currency, window_start DESC);

-- Returns the balances of all loans at the end of a window. A loan without events in it has those of an earlier window.
CREATE FUNCTION reporting.balances_at(p_window_end timestamptz)
    RETURNS TABLE (loan_id uuid, account text, currency text, balance_minor bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT DISTINCT ON (b.loan_id, b.account, b.currency) b.loan_id, b.account, b.currency, b.balance_minor
    FROM reporting.balance_fact b
    WHERE b.tenant_id = onceward_meta.current_tenant() AND b.window_end <= p_window_end
    ORDER BY b.loan_id, b.account, b.currency, b.window_start DESC
$$;
REVOKE ALL ON FUNCTION reporting.balances_at(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reporting.balances_at(timestamptz) TO onceward_app;
