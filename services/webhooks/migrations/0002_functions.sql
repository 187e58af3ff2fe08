-- Whether an endpoint's filters let an event type through: '*', 'payment.*', 'payment.posted' of any version, or 'payment.posted.v1'.
CREATE FUNCTION webhooks.wants(p_filters text[], p_type text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT EXISTS (
        SELECT FROM unnest(p_filters) AS f (filter)
        WHERE f.filter IN ('*', p_type, regexp_replace(p_type, '\.v[0-9]+$', ''))
           OR (f.filter LIKE '%.*' AND starts_with(p_type, left(f.filter, -1))))
$$;

-- Claims what is due, endpoint by endpoint, and so for all tenants. An endpoint is visited under its own lock and given no more
-- than its share, so one that hangs keeps nobody from his turn. Endpoints that fail are claimed for apart from the others, and
-- their share is one. The visit goes from p_after on and ends after p_most deliveries or p_visits endpoints; then the last row
-- has no delivery and tells where to go on. Each step is a look into an index, also while statistics are young.
CREATE FUNCTION webhooks.claim(
    p_after uuid, p_most int, p_visits int, p_in_flight int, p_failing boolean, p_lease_ms int)
    RETURNS TABLE (endpoint_id uuid, tenant_id text, delivery_id uuid, lease int, attempts int, url text, event_id uuid,
        event_type text, body text, traceparent text, tracestate text, key_ids text[], secrets bytea[], recorded_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    v_now      timestamptz := clock_timestamp();
    v_until    timestamptz := v_now + p_lease_ms * interval '1 millisecond';
    v_left     int := p_most;
    v_cursor   uuid := p_after;
    v_room     int;
    v_claimed  int;
    v_endpoint webhooks.endpoint;
    v_used     timestamptz;
    v_keys     text[];
    v_secrets  bytea[];
BEGIN
    FOR i IN 1..p_visits LOOP
        v_cursor := (SELECT d.endpoint_id FROM webhooks.delivery d
                     WHERE d.state = 'pending' AND d.endpoint_id > v_cursor ORDER BY d.endpoint_id LIMIT 1);
        IF v_cursor IS NULL THEN
            RETURN;
        END IF;
        CONTINUE WHEN NOT EXISTS (SELECT FROM webhooks.delivery d
            WHERE d.state = 'pending' AND d.endpoint_id = v_cursor AND d.due_at <= v_now);
        SELECT e.* INTO v_endpoint FROM webhooks.endpoint e
            WHERE e.endpoint_id = v_cursor AND NOT e.paused AND e.disabled_at IS NULL AND e.deleted_at IS NULL
              AND (e.failing_since IS NOT NULL) = p_failing
            FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        v_room := least(v_left, CASE WHEN p_failing THEN 1 ELSE p_in_flight END
            - (SELECT count(*) FROM webhooks.delivery d WHERE d.endpoint_id = v_cursor AND d.leased_until > v_now));
        IF v_endpoint.max_per_second IS NOT NULL THEN
            -- What was not used in the last second may be used now, and no more.
            v_used := greatest(v_endpoint.used_up_to, v_now - interval '1 second');
            v_room := least(v_room, floor(extract(epoch FROM v_now - v_used) * v_endpoint.max_per_second)::int);
        END IF;
        CONTINUE WHEN v_room <= 0;
        SELECT coalesce(array_agg(s.key_id ORDER BY s.number DESC), '{}'), coalesce(array_agg(s.secret ORDER BY s.number DESC), '{}')
            INTO v_keys, v_secrets FROM webhooks.secret s
            WHERE s.endpoint_id = v_cursor AND (s.expires_at IS NULL OR s.expires_at > v_now);
        RETURN QUERY
            WITH due AS (
                SELECT d.delivery_id FROM webhooks.delivery d
                WHERE d.state = 'pending' AND d.endpoint_id = v_cursor AND d.due_at <= v_now
                ORDER BY d.due_at LIMIT v_room FOR UPDATE SKIP LOCKED),
            claimed AS (
                UPDATE webhooks.delivery d SET due_at = v_until, leased_until = v_until, lease = d.lease + 1
                FROM due WHERE d.delivery_id = due.delivery_id AND d.tenant_id = v_endpoint.tenant_id
                RETURNING d.delivery_id, d.lease, d.attempts, d.event_id)
            SELECT v_cursor, v_endpoint.tenant_id, c.delivery_id, c.lease, c.attempts, v_endpoint.url, c.event_id, e.event_type, e.body,
                   e.traceparent, e.tracestate, v_keys, v_secrets, e.recorded_at
            FROM claimed c JOIN webhooks.event e ON e.event_id = c.event_id AND e.tenant_id = v_endpoint.tenant_id
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

-- Clears away some of what is older than p_keep, of all tenants: settled deliveries, the backlog of endpoints that were
-- disabled or deleted, events that no delivery needs any more, and deleted endpoints that are empty. Returns the number of rows.
CREATE FUNCTION webhooks.sweep(p_keep interval, p_most int) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_swept int := 0;
    v_count int;
BEGIN
    DELETE FROM webhooks.delivery WHERE (delivery_id, tenant_id) IN (
        SELECT d.delivery_id, d.tenant_id FROM webhooks.delivery d
        WHERE d.state <> 'pending' AND d.settled_at < now() - p_keep ORDER BY d.settled_at LIMIT p_most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_swept := v_swept + v_count;
    DELETE FROM webhooks.delivery WHERE (delivery_id, tenant_id) IN (
        SELECT d.delivery_id, d.tenant_id FROM webhooks.endpoint e
        JOIN webhooks.delivery d ON d.endpoint_id = e.endpoint_id AND d.tenant_id = e.tenant_id
        WHERE e.deleted_at IS NOT NULL OR e.disabled_at < now() - p_keep AND d.created_at < now() - p_keep
        LIMIT p_most FOR UPDATE OF d SKIP LOCKED);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_swept := v_swept + v_count;
    DELETE FROM webhooks.event WHERE (event_id, tenant_id) IN (
        SELECT e.event_id, e.tenant_id FROM webhooks.event e
        WHERE e.recorded_at < now() - p_keep AND NOT EXISTS (
            SELECT FROM webhooks.delivery d WHERE d.event_id = e.event_id AND d.tenant_id = e.tenant_id)
        ORDER BY e.recorded_at LIMIT p_most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    v_swept := v_swept + v_count;
    DELETE FROM webhooks.endpoint WHERE (endpoint_id, tenant_id) IN (
        SELECT e.endpoint_id, e.tenant_id FROM webhooks.endpoint e
        WHERE e.deleted_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM webhooks.delivery d WHERE d.endpoint_id = e.endpoint_id AND d.tenant_id = e.tenant_id)
        LIMIT p_most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_swept + v_count;
END
$$;

-- Secrets of all tenants that are encrypted with one of these keys, locked: for whoever encrypts them anew.
CREATE FUNCTION webhooks.secrets_under(p_key_ids text[], p_most int)
    RETURNS TABLE (tenant_id text, endpoint_id uuid, number int, key_id text, secret bytea)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT s.tenant_id, s.endpoint_id, s.number, s.key_id, s.secret FROM webhooks.secret s
    WHERE s.key_id = ANY (p_key_ids) LIMIT p_most FOR UPDATE SKIP LOCKED
$$;

-- Puts the same secrets under another key.
CREATE FUNCTION webhooks.reseal(p_tenant_id text, p_endpoint_id uuid, p_number int, p_key_id text, p_secret bytea) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE webhooks.secret s SET key_id = p_key_id, secret = p_secret
    WHERE s.endpoint_id = p_endpoint_id AND s.tenant_id = p_tenant_id AND s.number = p_number
$$;

-- For metrics: deliveries and endpoints of all tenants by state, each counted up to p_most.
CREATE FUNCTION webhooks.figures(p_most int) RETURNS TABLE (what text, state text, count bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT 'deliveries', 'pending', count(*) FROM (SELECT FROM webhooks.delivery d WHERE d.state = 'pending' LIMIT p_most) x
    UNION ALL
    SELECT 'deliveries', 'failed', count(*) FROM (SELECT FROM webhooks.delivery d WHERE d.state = 'failed' LIMIT p_most) x
    UNION ALL
    SELECT 'endpoints', s.state, (SELECT count(*) FROM (
            SELECT FROM webhooks.endpoint e WHERE e.deleted_at IS NULL AND s.state = CASE
                WHEN e.disabled_at IS NOT NULL THEN 'disabled' WHEN e.paused THEN 'paused'
                WHEN e.failing_since IS NOT NULL THEN 'failing' ELSE 'active' END LIMIT p_most) x)
    FROM (VALUES ('active'), ('paused'), ('failing'), ('disabled')) AS s (state)
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA webhooks FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA webhooks TO onceward_app;
