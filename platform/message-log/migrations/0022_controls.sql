-- Controls: pauses and rate limits, of a queue or of one tenant in it.

-- The number of a queue. Fails if it is not declared.
CREATE FUNCTION onceward.queue_id_of(p_queue text) RETURNS int
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id int;
BEGIN
    SELECT q.id INTO v_id
    FROM onceward.queue q
    WHERE q.name = p_queue;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no queue "%"', p_queue USING ERRCODE = 'OW006',
            HINT = '`onceward queues` lists the queues.';
    END IF;
    RETURN v_id;
END
$$;

-- Pauses a queue, or one tenant in it, for a time. A pause that exists is replaced. Pauses that have ended
-- are removed.
CREATE FUNCTION onceward.pause_queue(p_queue text, p_tenant text, p_for interval, p_by text, p_why text)
    RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_ends_at timestamptz := clock_timestamp() + p_for;
BEGIN
    DELETE FROM onceward.queue_pause WHERE ends_at <= clock_timestamp();
    INSERT INTO onceward.queue_pause (queue_id, tenant_id, ends_at, paused_by, why)
    VALUES (onceward.queue_id_of(p_queue), p_tenant, v_ends_at, p_by, p_why)
    ON CONFLICT (queue_id, tenant_id) DO UPDATE
    SET ends_at = EXCLUDED.ends_at,
        paused_at = EXCLUDED.paused_at,
        paused_by = EXCLUDED.paused_by,
        why = EXCLUDED.why;
    PERFORM pg_notify('onceward_wake', 'controls');
    RETURN v_ends_at;
END
$$;

-- Ends a pause. FALSE: it was not paused.
CREATE FUNCTION onceward.resume_queue(p_queue text, p_tenant text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_ends_at timestamptz;
BEGIN
    DELETE FROM onceward.queue_pause
    WHERE queue_id = onceward.queue_id_of(p_queue)
      AND tenant_id = p_tenant
    RETURNING ends_at INTO v_ends_at;
    PERFORM pg_notify('onceward_wake', 'controls');
    RETURN coalesce(v_ends_at > clock_timestamp(), false);
END
$$;

-- Limits how many messages of a queue, or of one tenant in it, are handled per second, over all processes.
CREATE FUNCTION onceward.limit_queue(
    p_queue text, p_tenant text, p_per_second double precision, p_burst int, p_by text, p_why text)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO onceward.queue_rate (queue_id, tenant_id, per_second, burst, permits, set_by, why)
    VALUES (onceward.queue_id_of(p_queue), p_tenant, p_per_second, p_burst, p_burst, p_by, p_why)
    ON CONFLICT (queue_id, tenant_id) DO UPDATE
    SET per_second = EXCLUDED.per_second,
        burst = EXCLUDED.burst,
        permits = least(queue_rate.permits, EXCLUDED.burst),
        set_at = EXCLUDED.set_at,
        set_by = EXCLUDED.set_by,
        why = EXCLUDED.why;
    PERFORM pg_notify('onceward_wake', 'controls');
END
$$;

-- Removes a rate limit. FALSE: there was none.
CREATE FUNCTION onceward.unlimit_queue(p_queue text, p_tenant text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_removed boolean;
BEGIN
    DELETE FROM onceward.queue_rate
    WHERE queue_id = onceward.queue_id_of(p_queue)
      AND tenant_id = p_tenant;
    v_removed := FOUND;
    PERFORM pg_notify('onceward_wake', 'controls');
    RETURN v_removed;
END
$$;

-- Everything that is set: pauses with the time that is left of them, and rate limits.
CREATE FUNCTION onceward.queue_controls()
    RETURNS TABLE (
        queue_id int, queue text, tenant_id text, remaining_ms bigint, ends_at timestamptz,
        per_second double precision, burst int, set_at timestamptz, set_by text, why text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT p.queue_id, q.name, p.tenant_id,
           ceil(extract(epoch FROM p.ends_at - clock_timestamp()) * 1000)::bigint, p.ends_at,
           NULL::double precision, NULL::int, p.paused_at, p.paused_by, p.why
    FROM onceward.queue_pause p
    JOIN onceward.queue q ON q.id = p.queue_id
    WHERE p.ends_at > clock_timestamp()
    UNION ALL
    SELECT r.queue_id, q.name, r.tenant_id,
           NULL, NULL,
           r.per_second, r.burst, r.set_at, r.set_by, r.why
    FROM onceward.queue_rate r
    JOIN onceward.queue q ON q.id = r.queue_id
    ORDER BY 2, 3
$$;

-- Takes up to p_wanted permits of a queue's limit and, if p_tenant is not empty, of the limit of that tenant
-- in it. Returns how many were granted and, if none was, the time until the next one and whether the limit of
-- the tenant is the cause.
CREATE FUNCTION onceward.take_permits(
    p_queue int, p_tenant text, p_wanted int, OUT granted int, OUT wait_ms bigint, OUT is_tenants boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now    timestamptz;
    v_bucket record;
BEGIN
    -- In one order, so that two readers cannot deadlock.
    PERFORM FROM onceward.queue_rate r
    WHERE r.queue_id = p_queue AND r.tenant_id IN ('', p_tenant)
    ORDER BY r.tenant_id
    FOR UPDATE;
    v_now := clock_timestamp();
    UPDATE onceward.queue_rate r
    SET permits = least(
            r.burst,
            r.permits + r.per_second * greatest(extract(epoch FROM v_now - r.filled_at), 0)),
        filled_at = v_now
    WHERE r.queue_id = p_queue AND r.tenant_id IN ('', p_tenant);
    -- The scarcest of both decides.
    SELECT r.permits, r.per_second, r.tenant_id INTO v_bucket
    FROM onceward.queue_rate r
    WHERE r.queue_id = p_queue AND r.tenant_id IN ('', p_tenant)
    ORDER BY least(floor(r.permits), 1), (1 - r.permits) / r.per_second DESC, r.permits
    LIMIT 1;
    IF NOT FOUND THEN
        granted := p_wanted;
        RETURN;
    END IF;
    SELECT least(min(floor(r.permits)), p_wanted)::int INTO granted
    FROM onceward.queue_rate r
    WHERE r.queue_id = p_queue AND r.tenant_id IN ('', p_tenant);
    IF granted < 1 THEN
        granted := 0;
        wait_ms := greatest(ceil((1 - v_bucket.permits) / v_bucket.per_second * 1000), 1)::bigint;
        is_tenants := v_bucket.tenant_id <> '';
        RETURN;
    END IF;
    UPDATE onceward.queue_rate r
    SET permits = r.permits - granted
    WHERE r.queue_id = p_queue AND r.tenant_id IN ('', p_tenant);
END
$$;

-- Returns permits that were not needed.
CREATE FUNCTION onceward.return_permits(p_queue int, p_tenant text, p_unused int) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM FROM onceward.queue_rate r
    WHERE r.queue_id = p_queue AND r.tenant_id IN ('', p_tenant)
    ORDER BY r.tenant_id
    FOR UPDATE;
    UPDATE onceward.queue_rate r
    SET permits = least(r.burst, r.permits + p_unused)
    WHERE r.queue_id = p_queue AND r.tenant_id IN ('', p_tenant);
END
$$;
