-- Lease: messages that one worker handles outside a turn, for a time that it may extend.

-- Ends a lease if this worker still holds it. FALSE: another worker has leased the message meanwhile. Turns
-- park followers of the key, so the lane is locked in shared mode while they are searched.
CREATE FUNCTION onceward.end_lease(p_id bigint, p_lease bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lane int;
    v_key  text;
BEGIN
    SELECT lane_id, ordering_key INTO v_lane, v_key
    FROM onceward.deferred
    WHERE id = p_id AND lease = p_lease AND state = 'leased';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(19012, v_lane);
    END IF;
    PERFORM
    FROM onceward.deferred
    WHERE id = p_id AND lease = p_lease AND state = 'leased'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM onceward.settle_deferred(ARRAY[p_id], 1);
    RETURN true;
END
$$;

-- Records, in a way that a crash of the worker cannot undo, that a leased message is now handled alone.
-- FALSE: another worker holds the lease.
CREATE FUNCTION onceward.start_alone(p_id bigint, p_lease bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.deferred SET starts_alone = starts_alone + 1
    WHERE id = p_id AND lease = p_lease AND state = 'leased';
    RETURN FOUND;
END
$$;

-- Returns a leased message until a later time, if this worker still holds the lease.
CREATE FUNCTION onceward.return_lease(p_row jsonb, p_lease bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM
    FROM onceward.deferred
    WHERE id = (p_row->>'id')::bigint AND lease = p_lease AND state = 'leased'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM onceward.redefer(jsonb_build_array(p_row));
    RETURN true;
END
$$;

-- Extends the leases that a worker still holds; returns those.
CREATE FUNCTION onceward.heartbeat(p_ids bigint[], p_leases bigint[], p_lease_ms bigint) RETURNS SETOF bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE onceward.deferred d SET due_at = clock_timestamp() + p_lease_ms * interval '1 ms'
    FROM unnest(p_ids, p_leases) AS h(id, lease)
    WHERE d.id = h.id AND d.lease = h.lease AND d.state = 'leased'
    RETURNING d.id
$$;
