-- Dead letters: how operators find and read them.
--
-- Functions that read or change letters see all tenants from a transaction that has none, and only its own
-- from one that has. So do all functions that call onceward.sees.

-- Returns whether the transaction sees rows of this tenant.
CREATE FUNCTION onceward.sees(p_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT coalesce(current_setting('onceward.tenant_id', true), '') IN ('', p_tenant) $$;

-- Returns whether a letter holds its key.
CREATE FUNCTION onceward.holds_key(p_letter bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT EXISTS (SELECT FROM onceward.deferred h WHERE h.dead_letter_id = p_letter) $$;

-- How many messages wait behind a letter that holds its key; NULL if it does not hold it.
CREATE FUNCTION onceward.followers(p_letter bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT (SELECT count(*)
            FROM onceward.deferred f
            WHERE f.lane_id = h.lane_id
              AND f.ordering_key = h.ordering_key
              AND f.blocks
              AND f.state = 'parked')
    FROM onceward.deferred h
    WHERE h.dead_letter_id = p_letter
$$;

-- How often the letter's message was requeued into the same queue before.
CREATE FUNCTION onceward.requeues(p_letter onceward.dead_letters) RETURNS int
    LANGUAGE sql STABLE
    AS $$
    SELECT count(*)::int
    FROM onceward.dead_letters b
    WHERE b.event_id = p_letter.event_id
      AND b.queue = p_letter.queue
      AND b.status = 'requeued'
      AND b.id < p_letter.id
$$;

-- The filter, restricted to the letters that the transaction can see.
CREATE FUNCTION onceward.own_filter(p_filter jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT p_filter || jsonb_build_object('own', nullif(current_setting('onceward.tenant_id', true), ''))
$$;

-- The letters that match a filter; members that it omits do not restrict it. Written to be inlined, so that
-- indexes are used.
CREATE FUNCTION onceward.dead_letters_like(p_filter jsonb) RETURNS SETOF onceward.dead_letters
    LANGUAGE sql STABLE
    AS $$
    SELECT d.*
    FROM onceward.dead_letters d
    WHERE (p_filter->>'status' IS NULL OR d.status = p_filter->>'status')
      AND (p_filter->>'queue' IS NULL OR d.queue = p_filter->>'queue')
      AND (p_filter->>'tenant' IS NULL OR d.tenant_id = p_filter->>'tenant')
      AND (p_filter->>'event_type' IS NULL OR d.event_type = p_filter->>'event_type')
      AND (p_filter->>'version' IS NULL OR d.version = (p_filter->>'version')::int)
      AND (p_filter->>'reason' IS NULL OR d.reason = p_filter->>'reason')
      AND (p_filter->>'event_id' IS NULL OR d.event_id = (p_filter->>'event_id')::uuid)
      AND (p_filter->>'holds_key' IS NULL OR onceward.holds_key(d.id) = (p_filter->>'holds_key')::boolean)
      AND (p_filter->>'older_ms' IS NULL
           OR d.dead_at < statement_timestamp() - (p_filter->>'older_ms')::bigint * interval '1 ms')
      AND (p_filter->>'newer_ms' IS NULL
           OR d.dead_at >= statement_timestamp() - (p_filter->>'newer_ms')::bigint * interval '1 ms')
      AND (p_filter->>'own' IS NULL OR d.tenant_id = p_filter->>'own')
$$;

-- A page of letters, the latest first, after the letter p_after.
CREATE FUNCTION onceward.find_dead_letters(p_filter jsonb, p_after bigint, p_limit int)
    RETURNS TABLE (
        id bigint, dead_at timestamptz, queue text, tenant_id text, event_id uuid, event_type text,
        version int, ordering_key text, correlation_id text, reason text, attempts int, last_error text,
        status text, tag text,
        holds_key boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    AS $$
DECLARE
    v_filter jsonb := onceward.own_filter(p_filter);
    v_after  timestamptz;
BEGIN
    IF p_after IS NULL THEN
        RETURN QUERY
        SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key,
               d.correlation_id, d.reason, d.attempts, d.last_error, d.status, d.tag, onceward.holds_key(d.id)
        FROM onceward.dead_letters_like(v_filter) d
        ORDER BY d.dead_at DESC, d.id DESC
        LIMIT p_limit;
        RETURN;
    END IF;
    SELECT a.dead_at INTO v_after
    FROM onceward.dead_letters a
    WHERE a.id = p_after AND onceward.sees(a.tenant_id);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dead letter %', p_after USING ERRCODE = 'OW002';
    END IF;
    RETURN QUERY
    SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key,
           d.correlation_id, d.reason, d.attempts, d.last_error, d.status, d.tag, onceward.holds_key(d.id)
    FROM onceward.dead_letters_like(v_filter) d
    WHERE (d.dead_at, d.id) < (v_after, p_after)
    ORDER BY d.dead_at DESC, d.id DESC
    LIMIT p_limit;
END
$$;

-- Complete letters in the order of p_ids, and how often each message was requeued before it died this time.
CREATE FUNCTION onceward.dead_letters_in_full(p_ids bigint[])
    RETURNS TABLE (
        id bigint, dead_at timestamptz, queue text, tenant_id text, event_id uuid, event_type text,
        version int, ordering_key text, correlation_id text, reason text, attempts int, last_error text,
        status text, tag text,
        holds_key boolean, consumer text, dead_letter_exchange text, first_error text,
        first_failed_at timestamptz, requeues int, message jsonb, attempt_log jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key,
           d.correlation_id, d.reason, d.attempts, d.last_error, d.status, d.tag, onceward.holds_key(d.id),
           d.consumer, d.dead_letter_exchange, d.first_error, d.first_failed_at,
           onceward.requeues(d), d.message, d.attempt_log
    FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth)
    JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)
    ORDER BY a.nth
$$;

-- The ids of letters that match a filter, of all or of these, in the order in which their messages were
-- published: by number in the log, and those without one by their time. The running maximum makes times
-- follow the numbers, which are correct where they differ.
CREATE FUNCTION onceward.dead_letters_in_order(p_ids bigint[], p_filter jsonb, p_limit int)
    RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    AS $$
DECLARE
    v_filter jsonb := onceward.own_filter(p_filter);
BEGIN
    RETURN QUERY
    SELECT o.id
    FROM (
        SELECT d.id, d.seq, d.event_id,
               max(coalesce(d.occurred_at, d.dead_at)) OVER (
                   PARTITION BY d.queue, d.tenant_id, d.ordering_key, d.seq > 0
                   ORDER BY d.seq, coalesce(d.occurred_at, d.dead_at), d.event_id
                   ROWS UNBOUNDED PRECEDING) AS at
        FROM onceward.dead_letters_like(v_filter) d
        WHERE p_ids IS NULL OR d.id = ANY (p_ids)) o
    ORDER BY o.at, o.seq, o.event_id, o.id
    LIMIT p_limit;
END
$$;

-- The actions on one letter or on all, the latest first; including letters that were deleted.
CREATE FUNCTION onceward.dead_letter_acts(p_letter bigint, p_before bigint, p_limit int)
    RETURNS TABLE (
        id bigint, dead_letter_id bigint, act text, actor text, why text, tag text, at timestamptz,
        detail jsonb, queue text, tenant_id text, event_type text, version int)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    AS $$
BEGIN
    RETURN QUERY
    SELECT a.id, a.dead_letter_id, a.act, a.actor, a.why, a.tag, a.at, a.detail, a.queue, a.tenant_id,
           a.event_type, a.version
    FROM onceward.dead_letter_act a
    WHERE onceward.sees(a.tenant_id)
      AND (p_letter IS NULL OR a.dead_letter_id = p_letter)
      AND (p_before IS NULL OR a.id < p_before)
    ORDER BY a.id DESC
    LIMIT p_limit;
END
$$;
