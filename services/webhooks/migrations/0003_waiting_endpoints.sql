-- Claims pass over endpoints whose breakers reject requests in the calling instance. The request is a document, because a function with
-- eight parameters is called with two of them exchanged sooner or later.

-- Claims what is due, endpoint by endpoint, and so for all tenants. An endpoint is visited under its own lock and given no more
-- than its share, so one that hangs delays no other. Endpoints that fail are claimed for apart from the others, and their share is one.
--
-- p_request has: after, the endpoint after which to begin; limit, the most deliveries; visits, the most endpoints; in_flight, the share of an
-- endpoint; failing, whether to claim for failing endpoints or for the others; lease_ms; waiting, the endpoints to pass over, each
-- with the URL for which that is true. If it ends at a limit, the last row has no delivery and names the endpoint after which to continue.
-- Each step is an index lookup, also while statistics are young.
CREATE FUNCTION webhooks.claim(p_request jsonb)
    RETURNS TABLE (
        endpoint_id uuid,
        tenant_id   text,
        delivery_id uuid,
        lease       int,
        attempts    int,
        url         text,
        event_id    uuid,
        event_type  text,
        body        text,
        traceparent text,
        tracestate  text,
        key_ids     text[],
        secrets     bytea[],
        recorded_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    v_now      timestamptz := clock_timestamp();
    v_until    timestamptz := v_now + (p_request->>'lease_ms')::int * interval '1 millisecond';
    v_cursor   uuid := (p_request->>'after')::uuid;
    v_left     int := (p_request->>'limit')::int;
    v_failing  boolean := (p_request->>'failing')::boolean;
    v_share    int := CASE WHEN (p_request->>'failing')::boolean THEN 1 ELSE (p_request->>'in_flight')::int END;
    v_waiting  jsonb := coalesce(p_request->'waiting', '{}');
    v_url      text;
    v_room     int;
    v_claimed  int;
    v_endpoint webhooks.endpoint;
    v_used     timestamptz;
    v_keys     text[];
    v_secrets  bytea[];
BEGIN
    FOR i IN 1..(p_request->>'visits')::int LOOP
        v_cursor := (
            SELECT d.endpoint_id
            FROM webhooks.delivery d
            WHERE d.state = 'pending'
              AND d.endpoint_id > v_cursor
            ORDER BY d.endpoint_id
            LIMIT 1);
        IF v_cursor IS NULL THEN
            RETURN;
        END IF;
        -- An endpoint that waits is not locked. It waits no longer once it has another URL.
        v_url := v_waiting->>v_cursor::text;
        CONTINUE WHEN v_url IS NOT NULL AND EXISTS (
            SELECT FROM webhooks.endpoint e
            WHERE e.endpoint_id = v_cursor
              AND e.url = v_url);
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM webhooks.delivery d
            WHERE d.state = 'pending'
              AND d.endpoint_id = v_cursor
              AND d.due_at <= v_now);
        SELECT e.*
        INTO v_endpoint
        FROM webhooks.endpoint e
        WHERE e.endpoint_id = v_cursor
          AND NOT e.paused
          AND e.disabled_at IS NULL
          AND e.deleted_at IS NULL
          AND (e.failing_since IS NOT NULL) = v_failing
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_room := least(v_left, v_share - (
            SELECT count(*)
            FROM webhooks.delivery d
            WHERE d.endpoint_id = v_cursor
              AND d.leased_until > v_now));
        IF v_endpoint.max_per_second IS NOT NULL THEN
            -- What was not used in the last second may be used now, and no more.
            v_used := greatest(v_endpoint.used_up_to, v_now - interval '1 second');
            v_room := least(v_room, floor(extract(epoch FROM v_now - v_used) * v_endpoint.max_per_second)::int);
        END IF;
        CONTINUE WHEN v_room <= 0;
        SELECT coalesce(array_agg(s.key_id ORDER BY s.number DESC), '{}'),
            coalesce(array_agg(s.secret ORDER BY s.number DESC), '{}')
        INTO v_keys, v_secrets
        FROM webhooks.secret s
        WHERE s.endpoint_id = v_cursor
          AND (s.expires_at IS NULL OR s.expires_at > v_now);
        RETURN QUERY
            WITH due AS (
                SELECT d.delivery_id
                FROM webhooks.delivery d
                WHERE d.state = 'pending'
                  AND d.endpoint_id = v_cursor
                  AND d.due_at <= v_now
                ORDER BY d.due_at
                LIMIT v_room
                FOR UPDATE SKIP LOCKED),
            claimed AS (
                UPDATE webhooks.delivery d
                SET due_at = v_until,
                    leased_until = v_until,
                    lease = d.lease + 1
                FROM due
                WHERE d.delivery_id = due.delivery_id
                  AND d.tenant_id = v_endpoint.tenant_id
                RETURNING d.delivery_id, d.lease, d.attempts, d.event_id)
            SELECT v_cursor, v_endpoint.tenant_id, c.delivery_id, c.lease, c.attempts, v_endpoint.url, c.event_id, e.event_type, e.body,
                e.traceparent, e.tracestate, v_keys, v_secrets, e.recorded_at
            FROM claimed c
            JOIN webhooks.event e ON e.event_id = c.event_id AND e.tenant_id = v_endpoint.tenant_id
            ORDER BY c.event_id;
        GET DIAGNOSTICS v_claimed = ROW_COUNT;
        IF v_endpoint.max_per_second IS NOT NULL THEN
            UPDATE webhooks.endpoint e
            SET used_up_to = v_used + v_claimed * interval '1 second' / v_endpoint.max_per_second
            WHERE e.endpoint_id = v_cursor;
        END IF;
        v_left := v_left - v_claimed;
        EXIT WHEN v_left <= 0;
    END LOOP;
    endpoint_id := v_cursor;
    RETURN NEXT;
END
$$;

REVOKE ALL ON FUNCTION webhooks.claim(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION webhooks.claim(jsonb) TO onceward_app;
