-- The age of the oldest mail that is not finished, over all tenants; 0 if there is none.
CREATE FUNCTION crm.queue_lag_seconds() RETURNS double precision
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce(
        (SELECT greatest(extract(epoch FROM now() - requested_at), 0)
         FROM crm.email
         WHERE finished_at IS NULL
         ORDER BY requested_at
         LIMIT 1), 0)::double precision
$$;

-- Objects whose request was never committed, oldest first.
CREATE FUNCTION crm.abandoned_objects(p_older_than interval, p_most int) RETURNS TABLE (tenant_id text, object_key text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT pending.tenant_id, pending.object_key
    FROM crm.pending_object pending
    WHERE pending.stored_at < now() - p_older_than
    ORDER BY pending.stored_at
    LIMIT p_most
$$;

-- Forgets objects that were deleted.
CREATE FUNCTION crm.forget_abandoned(p_tenants text[], p_keys text[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    DELETE FROM crm.pending_object
    WHERE (object_key, tenant_id) IN (SELECT gone.object_key, gone.tenant_id
        FROM unnest(p_keys, p_tenants) AS gone (object_key, tenant_id))
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA crm FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA crm TO onceward_app;
