-- Whether an endpoint's filters let an event type through: '*', 'payment.*', 'payment.posted' of any version, or 'payment.posted.v1'.
CREATE FUNCTION webhooks.wants(p_filters text[], p_type text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT EXISTS (
        SELECT FROM unnest(p_filters) AS f (filter)
        WHERE f.filter IN ('*', p_type, regexp_replace(p_type, '\.v[0-9]+$', ''))
           OR (f.filter LIKE '%.*' AND starts_with(p_type, left(f.filter, -1))))
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
