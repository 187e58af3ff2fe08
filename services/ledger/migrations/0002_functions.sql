-- All functions run with the rights of their caller, so row-level security applies inside them, too.

CREATE FUNCTION ledger.sp_finalize_ledger_event(p_event_id uuid) RETURNS timestamptz
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_finalized_at timestamptz;
BEGIN
    UPDATE ledger.ledger_event SET finalized_at = now()
    WHERE tenant_id = onceward_meta.current_tenant() AND event_id = p_event_id AND finalized_at IS NULL
    RETURNING finalized_at INTO v_finalized_at;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no draft % to finalise: it does not exist or is final already', p_event_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN v_finalized_at;
END
$$;

-- Posts events with their lines and finalises them, all in one call. A correlation id that is already used is not an error:
-- its event is skipped and returned, with the event that has the id.
CREATE FUNCTION ledger.post_events(
    p_event_ids uuid[], p_loan_ids uuid[], p_schemas text[], p_correlation_ids text[], p_effective_dates date[], p_notes text[],
    p_line_events int[], p_line_nos smallint[], p_accounts text[], p_currencies text[], p_debits bigint[], p_credits bigint[],
    p_memos text[]
) RETURNS TABLE (given_id uuid, known_id uuid)
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
    v_fresh  uuid[];
BEGIN
    -- In one order, so that two calls with the same correlation ids cannot deadlock.
    WITH inserted AS (
        INSERT INTO ledger.ledger_event (tenant_id, event_id, loan_id, schema, correlation_id, effective_date, note)
        SELECT v_tenant, e.event_id, e.loan_id, e.schema, e.correlation_id, e.effective_date, e.note
        FROM unnest(p_event_ids, p_loan_ids, p_schemas, p_correlation_ids, p_effective_dates, p_notes)
            AS e (event_id, loan_id, schema, correlation_id, effective_date, note)
        ORDER BY e.correlation_id
        ON CONFLICT (correlation_id, tenant_id) DO NOTHING
        RETURNING event_id)
    SELECT array_agg(event_id) INTO v_fresh FROM inserted;

    INSERT INTO ledger.ledger_entry
        (tenant_id, event_id, line_no, loan_id, account, currency, debit_minor, credit_minor, memo, effective_date)
    SELECT v_tenant, p_event_ids[l.event], l.line_no, p_loan_ids[l.event], l.account, l.currency, l.debit, l.credit, l.memo,
        p_effective_dates[l.event]
    FROM unnest(p_line_events, p_line_nos, p_accounts, p_currencies, p_debits, p_credits, p_memos)
        AS l (event, line_no, account, currency, debit, credit, memo)
    WHERE cardinality(v_fresh) = cardinality(p_event_ids) OR p_event_ids[l.event] = ANY (v_fresh);

    UPDATE ledger.ledger_event SET finalized_at = now() WHERE tenant_id = v_tenant AND event_id = ANY (v_fresh);

    IF cardinality(v_fresh) = cardinality(p_event_ids) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT g.event_id, k.event_id
    FROM unnest(p_event_ids, p_correlation_ids) AS g (event_id, correlation_id)
    LEFT JOIN ledger.ledger_event k ON k.tenant_id = v_tenant AND k.correlation_id = g.correlation_id
    WHERE g.event_id <> ALL (coalesce(v_fresh, '{}'));
END
$$;

-- Posts the mirror image of an event. If that is not possible, writes nothing and returns the reason.
CREATE FUNCTION ledger.reverse_event(
    p_event_id uuid, p_reversal_id uuid, p_schema text, p_effective_date date, p_correlation_id text, p_note text,
    OUT outcome text, OUT known_id uuid
)
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_tenant  text := onceward_meta.current_tenant();
    v_loan_id uuid;
BEGIN
    SELECT e.loan_id INTO v_loan_id FROM ledger.ledger_event e
    WHERE e.tenant_id = v_tenant AND e.event_id = p_event_id AND e.finalized_at IS NOT NULL;
    IF NOT FOUND THEN
        outcome := 'missing';
        known_id := p_event_id;
        RETURN;
    END IF;

    INSERT INTO ledger.ledger_event (tenant_id, event_id, loan_id, schema, correlation_id, effective_date, reverses, note)
    VALUES (v_tenant, p_reversal_id, v_loan_id, p_schema, p_correlation_id, p_effective_date, p_event_id, p_note)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        SELECT 'reversed', e.event_id INTO outcome, known_id FROM ledger.ledger_event e
        WHERE e.tenant_id = v_tenant AND e.reverses = p_event_id;
        IF NOT FOUND THEN
            outcome := 'posted';
            known_id := coalesce(
                (SELECT e.event_id FROM ledger.ledger_event e
                 WHERE e.tenant_id = v_tenant AND e.correlation_id = p_correlation_id), p_reversal_id);
        END IF;
        RETURN;
    END IF;

    INSERT INTO ledger.ledger_entry
        (tenant_id, event_id, line_no, loan_id, account, currency, debit_minor, credit_minor, memo, effective_date)
    SELECT v_tenant, p_reversal_id, n.line_no, n.loan_id, n.account, n.currency, n.credit_minor, n.debit_minor,
        'reversal: ' || n.memo, p_effective_date
    FROM ledger.ledger_entry n
    WHERE n.tenant_id = v_tenant AND n.event_id = p_event_id;

    UPDATE ledger.ledger_event SET finalized_at = now() WHERE tenant_id = v_tenant AND event_id = p_reversal_id;
    outcome := 'done';
    known_id := p_reversal_id;
END
$$;

CREATE FUNCTION ledger.latest_balances(p_loan_id uuid) RETURNS TABLE (account text, currency text, balance_minor bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT b.account, b.currency, b.balance_minor FROM ledger.balance b
    WHERE b.tenant_id = onceward_meta.current_tenant() AND b.loan_id = p_loan_id
    ORDER BY b.account, b.currency
$$;

-- Creates missing rows and locks all of them, in the order in which postings lock. `WHERE false` locks without writing.
CREATE FUNCTION ledger.lock_balances(p_loan_id uuid, p_currency text, p_accounts text[])
    RETURNS TABLE (account text, currency text, balance_minor bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO ledger.balance AS b (tenant_id, loan_id, account, currency, balance_minor)
    SELECT onceward_meta.current_tenant(), p_loan_id, a.account, p_currency, 0
    FROM unnest(p_accounts) AS a (account)
    ORDER BY a.account COLLATE "C"
    ON CONFLICT (loan_id, tenant_id, account, currency) DO UPDATE SET balance_minor = b.balance_minor WHERE false;
    RETURN QUERY SELECT l.account, l.currency, l.balance_minor FROM ledger.latest_balances(p_loan_id) l;
END
$$;

-- Returns the tenants with data in the ledger, for checks: all of them in a transaction without a tenant, otherwise the
-- tenant itself. Scans both tables.
CREATE FUNCTION ledger.tenants() RETURNS TABLE (tenant_id text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT t.tenant_id
    FROM (SELECT b.tenant_id FROM ledger.balance b UNION SELECT e.tenant_id FROM ledger.ledger_event e) t
    WHERE coalesce(current_setting('onceward.tenant_id', true), '') IN ('', t.tenant_id)
    ORDER BY t.tenant_id COLLATE "C"
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ledger FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ledger TO onceward_app;
