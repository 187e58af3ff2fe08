-- Double entry: events, their lines, and the balances that follow from them.
--
-- An event is a draft until it is finalised, and lines can be added only to a draft. Finalising checks the event and moves
-- the balances; from then on it and its lines are permanent. Triggers on the tables enforce the rules, not the functions
-- of 0002, so they also bind writers that bypass those functions.
--
-- An event belongs to one loan, or to none: the loan id of zeros stands for the tenant's own books, such as its unapplied
-- cash. It is an id and not NULL, so that keys, locks and checks treat these books like all others.
--
-- Keys begin with the id and not with the tenant. The planner estimates hardly any rows for a tenant that is new since the
-- last ANALYZE; with the tenant first it would read all rows of the tenant to find one, and keep that plan. For the same
-- reason lookups in triggers are fenced (LATERAL), and those in functions may not use sequential scans.

CREATE TABLE ledger.ledger_event (
    tenant_id      text        NOT NULL CHECK (tenant_id <> ''),
    event_id       uuid        NOT NULL,
    loan_id        uuid        NOT NULL,
    schema         text        NOT NULL,
    correlation_id text        NOT NULL CHECK (length(correlation_id) BETWEEN 1 AND 255),
    effective_date date        NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    finalized_at   timestamptz,
    reverses       uuid,
    note           text,
    PRIMARY KEY (event_id, tenant_id),
    CONSTRAINT ledger_event_correlation UNIQUE (correlation_id, tenant_id),
    FOREIGN KEY (reverses, tenant_id) REFERENCES ledger.ledger_event
) WITH (fillfactor = 70);                        -- room for the finalised version beside the draft
CREATE UNIQUE INDEX ledger_event_reverses ON ledger.ledger_event (reverses, tenant_id) WHERE reverses IS NOT NULL;
CREATE INDEX ledger_event_history ON ledger.ledger_event (loan_id, tenant_id, effective_date, event_id);

CREATE TABLE ledger.ledger_entry (
    tenant_id      text     NOT NULL,
    event_id       uuid     NOT NULL,
    line_no        smallint NOT NULL,
    loan_id        uuid     NOT NULL,
    account        text     NOT NULL COLLATE "C" CHECK (account IN (
        'cash', 'loan_principal', 'interest_receivable', 'fees_receivable', 'escrow_liability', 'suspense',
        'disbursement_clearing', 'interest_income', 'fee_income', 'recovery_income', 'charge_off_expense',
        'opening_balance', 'unapplied_cash')),
    currency       text     NOT NULL COLLATE "C" CHECK (currency ~ '^[A-Z]{3}$'),
    debit_minor    bigint   NOT NULL,
    credit_minor   bigint   NOT NULL,
    memo           text     NOT NULL,
    effective_date date     NOT NULL,
    PRIMARY KEY (event_id, tenant_id, line_no),
    FOREIGN KEY (event_id, tenant_id) REFERENCES ledger.ledger_event,
    CONSTRAINT ledger_entry_one_side CHECK (
        (debit_minor > 0 AND credit_minor = 0) OR (debit_minor = 0 AND credit_minor > 0))
);

-- Debits less credits of all finalised lines. A row is created at first use and never deleted.
CREATE TABLE ledger.balance (
    tenant_id     text   NOT NULL,
    loan_id       uuid   NOT NULL,
    account       text   NOT NULL COLLATE "C",
    currency      text   NOT NULL COLLATE "C",
    balance_minor bigint NOT NULL,
    PRIMARY KEY (loan_id, tenant_id, account, currency)
) WITH (fillfactor = 50);                        -- updated over and over, in place

SELECT onceward_meta.protect('ledger.ledger_event', 'SELECT');
SELECT onceward_meta.protect('ledger.ledger_entry', 'SELECT, INSERT');
SELECT onceward_meta.protect('ledger.balance', 'SELECT, INSERT');
-- The application may create drafts and finalise them. It can neither insert final events nor change anything else.
GRANT INSERT (tenant_id, event_id, loan_id, schema, correlation_id, effective_date, reverses, note)
    ON ledger.ledger_event TO onceward_app;
GRANT UPDATE (finalized_at) ON ledger.ledger_event TO onceward_app;
GRANT UPDATE (balance_minor) ON ledger.balance TO onceward_app;

-- Final events are never changed, not even by the owner, and lines never change at all. The condition is part of the
-- trigger, so finalising does not call the function.
CREATE FUNCTION ledger.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'final events cannot be changed: post a reversal instead of % on %', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'object_not_in_prerequisite_state';
END
$$;

CREATE TRIGGER finalized_stays BEFORE UPDATE OR DELETE ON ledger.ledger_event
    FOR EACH ROW WHEN (OLD.finalized_at IS NOT NULL) EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE ON ledger.ledger_entry
    FOR EACH ROW EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER events_are_not_truncated BEFORE TRUNCATE ON ledger.ledger_event EXECUTE FUNCTION ledger.refuse_change();
CREATE TRIGGER entries_are_not_truncated BEFORE TRUNCATE ON ledger.ledger_entry EXECUTE FUNCTION ledger.refuse_change();

-- Lines can be added only to drafts of their loan and day. The lock serialises a line being added with a finalisation.
CREATE FUNCTION ledger.check_added() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_fitting bigint;
BEGIN
    SELECT count(*) INTO v_fitting
    FROM added a
    CROSS JOIN LATERAL (
        SELECT FROM ledger.ledger_event e
        WHERE e.tenant_id = a.tenant_id AND e.event_id = a.event_id AND e.loan_id = a.loan_id
          AND e.effective_date = a.effective_date AND e.finalized_at IS NULL
        FOR SHARE) draft;
    IF v_fitting <> (SELECT count(*) FROM added) THEN
        RAISE EXCEPTION 'a line can be added only to a draft, with the loan and the day of its event'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER added AFTER INSERT ON ledger.ledger_entry
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger.check_added();

-- An event that becomes final must balance, and moves the balances. Rows are created and locked in one pass and in one
-- order, account before loan: otherwise first uses would race, and postings to two loans could deadlock.
CREATE FUNCTION ledger.on_finalized() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_wrong record;
BEGIN
    WITH line AS MATERIALIZED (
        SELECT f.tenant_id, f.event_id, n.loan_id, n.account, n.currency, n.debit_minor, n.credit_minor
        FROM finalized f
        LEFT JOIN LATERAL (
            SELECT * FROM ledger.ledger_entry e WHERE e.event_id = f.event_id AND e.tenant_id = f.tenant_id OFFSET 0
        ) n ON true
        WHERE f.finalized_at IS NOT NULL),
    moved AS (
        INSERT INTO ledger.balance AS b (tenant_id, loan_id, account, currency, balance_minor)
        SELECT tenant_id, loan_id, account, currency, sum(debit_minor - credit_minor)::bigint
        FROM line WHERE account IS NOT NULL
        GROUP BY tenant_id, loan_id, account, currency
        ORDER BY account, loan_id, currency, tenant_id
        ON CONFLICT (loan_id, tenant_id, account, currency)
            DO UPDATE SET balance_minor = b.balance_minor + excluded.balance_minor)
    SELECT event_id, currency, count(account) AS lines, sum(debit_minor) AS debits, sum(credit_minor) AS credits
    INTO v_wrong
    FROM line
    GROUP BY event_id, currency
    HAVING count(account) < 2 OR sum(debit_minor) <> sum(credit_minor)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'event % does not balance: % lines, % debited and % credited in %', v_wrong.event_id,
            v_wrong.lines, coalesce(v_wrong.debits, 0), coalesce(v_wrong.credits, 0), coalesce(v_wrong.currency, 'any currency')
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER finalized AFTER UPDATE ON ledger.ledger_event
    REFERENCING NEW TABLE AS finalized FOR EACH STATEMENT EXECUTE FUNCTION ledger.on_finalized();
