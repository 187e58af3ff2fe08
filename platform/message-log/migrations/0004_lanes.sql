-- Lanes: which lane a message belongs to.

-- The first bytes of a tenant-scoped hash; the Rust publisher computes the same (`hash.rs`).
CREATE FUNCTION onceward.scoped_hash(p_tenant text, p_text text) RETURNS bytea
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT sha256(convert_to(p_tenant || ':' || p_text, 'UTF8')) $$;

-- Returns the lane's number; creates the lane on first use.
CREATE FUNCTION onceward.lane_of(p_queue int, p_tenant text, p_priority smallint, p_shard smallint)
    RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id int;
BEGIN
    LOOP
        SELECT id INTO v_id
        FROM onceward.lane
        WHERE queue_id = p_queue
          AND tenant_id = p_tenant
          AND priority = p_priority
          AND shard = p_shard;
        IF FOUND THEN
            RETURN v_id;
        END IF;
        INSERT INTO onceward.lane (queue_id, tenant_id, priority, shard)
        VALUES (p_queue, p_tenant, p_priority, p_shard)
        ON CONFLICT DO NOTHING
        RETURNING id INTO v_id;
        IF FOUND THEN
            INSERT INTO onceward.tenant (id)
            VALUES (p_tenant)
            ON CONFLICT DO NOTHING;
            RETURN v_id;
        END IF;
    END LOOP;
END
$$;

-- Returns the lane of unrouted messages of this exchange and event type with version; creates it on first
-- use.
CREATE FUNCTION onceward.unrouted_lane(p_exchange text, p_event_type text) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id int;
BEGIN
    SELECT id INTO v_id
    FROM onceward.unrouted_lane
    WHERE exchange = p_exchange AND event_type = p_event_type;
    IF NOT FOUND AND (SELECT count(*) < 1000 FROM onceward.unrouted_lane) THEN
        INSERT INTO onceward.unrouted_lane (exchange, event_type)
        VALUES (p_exchange, p_event_type)
        ON CONFLICT (exchange, event_type) DO UPDATE SET event_type = EXCLUDED.event_type
        RETURNING id INTO v_id;
    END IF;
    RETURN coalesce(v_id, -1);
END
$$;

-- The destinations of a published message: its readers' queues and lanes, or the outbox if a relay publishes
-- it. Without a reader it has no queue, and its lane is -1. Two plain queries: one with both cases is so
-- complex that the planner would compile it again for every message.
CREATE FUNCTION onceward.lanes_for(
    p_exchange text, p_routing_key text, p_tenant text, p_priority int, p_hash bigint,
    OUT queues int[], OUT lanes int[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM onceward.log_state WHERE bus = 'postgres') THEN
        queues := ARRAY(
            SELECT DISTINCT b.queue_id
            FROM onceward.binding b
            WHERE b.exchange = p_exchange AND p_routing_key ~ b.regex
            ORDER BY 1);
    ELSE
        queues := ARRAY(SELECT q.id FROM onceward.queue q WHERE q.name = '@outbox');
    END IF;
    SELECT array_agg(
               onceward.lane_of(
                   q.id, p_tenant, least(greatest(p_priority, 0), q.max_priority)::smallint,
                   (p_hash % q.shards)::smallint)
               ORDER BY q.id)
    INTO lanes
    FROM onceward.queue q
    WHERE q.id = ANY (queues);
    lanes := coalesce(lanes, '{-1}');
END
$$;

-- The queue, tenant and priority of lanes, for wake-ups.
CREATE FUNCTION onceward.lane_info(p_lanes int[])
    RETURNS TABLE (lane_id int, queue_id int, tenant_id text, priority smallint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT l.id, l.queue_id, l.tenant_id, l.priority
    FROM onceward.lane l
    WHERE l.id = ANY (p_lanes)
$$;

-- Wakes the readers of these lanes when the transaction commits. A notification holds a few hundred numbers
-- at most.
CREATE FUNCTION onceward.wake(p_lanes int[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT pg_notify('onceward_wake', string_agg(l.lane::text, ','))
    FROM (
        SELECT DISTINCT u.lane, dense_rank() OVER (ORDER BY u.lane) AS nth
        FROM unnest(p_lanes) AS u(lane)) l
    GROUP BY l.nth / 500
$$;

-- Removes the bindings of a queue that no release declares any more. Its waiting messages stay.
CREATE FUNCTION onceward.unbind_queue(p_queue text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_gone bigint;
BEGIN
    PERFORM FROM onceward.log_state FOR UPDATE;
    DELETE FROM onceward.binding b
    USING onceward.queue q
    WHERE q.id = b.queue_id AND q.name = p_queue;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    IF v_gone > 0 THEN
        UPDATE onceward.log_state SET topology_version = topology_version + 1;
    END IF;
    RETURN v_gone;
END
$$;

-- Registers a tenant. Returns whether it is new.
CREATE FUNCTION onceward.add_tenant(p_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_id !~ '^[A-Za-z0-9_-]{1,64}$' THEN
        RAISE EXCEPTION 'tenant must be 1 to 64 letters, digits, "-" or "_"' USING ERRCODE = 'OW002';
    END IF;
    INSERT INTO onceward.tenant (id)
    VALUES (p_id)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
