-- What reports are made from: facts by window, made by jobs and made again when something late belongs to them. Reading is all
-- that is wanted here; whatever is changed by hand is gone with the next generation of its window.
--
-- A fact is there for each loan to which something happened in the window. Amounts are integer minor units.

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
    -- At the window's end. None: the loan was made later, and what happened in the window was entered afterwards.
    status             text,
    -- Events in the ledger, and changes of the status.
    events             int         NOT NULL,
    -- What the window brought: paid out to the borrower, earned, received by payments less what went back, paid out of
    -- escrow, given up.
    funded_minor       bigint      NOT NULL,
    interest_minor     bigint      NOT NULL,
    fees_minor         bigint      NOT NULL,
    received_minor     bigint      NOT NULL,
    escrow_paid_minor  bigint      NOT NULL,
    charged_off_minor  bigint      NOT NULL,
    PRIMARY KEY (tenant_id, window_start, loan_id)
);
SELECT onceward_meta.protect('reporting.loan_fact', 'SELECT, INSERT, DELETE');

-- A payment in the ledger, or a payment that was taken back, which has its amounts with the other sign. One that was posted
-- again because of something before it is taken back and there a second time.
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

-- What each account of the loan held at the window's end, as debits less credits, and by how much it moved in the window.
-- Accounts that hold nothing and did not move are left out.
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

-- The balances of all loans when a window ended. A loan to which nothing happened in it has those of an earlier one.
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
