-- Land: messages received from an external bus are appended to their readers' lanes.

-- Appends messages received from a bus to their reader's lanes, in the given order, unless they landed there
-- before. The inbox is written first and in the same order by every receiver: one that lands the same
-- messages at the same time waits here and then finds that they have landed. Returns the lanes that have new
-- messages.
CREATE FUNCTION onceward.land(
    p_consumer text, p_key text[],
    p_id uuid[], p_lane int[], p_version smallint[],
    p_tenant text[], p_event_type text[], p_topic text[], p_ordering_key text[], p_idempotency_key text[],
    p_correlation_uuid uuid[], p_correlation text[], p_causation text[],
    p_headers text[], p_payload text[], p_occurred timestamptz[], p_published timestamptz[])
    RETURNS int[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_xid   xid8 := pg_current_xact_id();
    v_now   timestamptz := clock_timestamp();
    v_fresh jsonb;
    v_all   boolean;
    v_lanes int[];
BEGIN
    PERFORM onceward.refuse_quiet();
    WITH fresh AS (
        INSERT INTO onceward.inbox (consumer, tenant_id, idempotency_key)
        SELECT p_consumer, u.tenant, u.key
        FROM unnest(p_tenant, p_key) AS u(tenant, key)
        ORDER BY u.tenant, u.key
        ON CONFLICT DO NOTHING
        RETURNING tenant_id, idempotency_key)
    SELECT coalesce(jsonb_object_agg(f.tenant_id || ':' || f.idempotency_key, true), '{}'),
           count(*) = cardinality(p_key)
    INTO v_fresh, v_all
    FROM fresh f;
    WITH landed AS (
        INSERT INTO onceward.message_log (
            seq, xid, created_at, occurred_at, id,
            correlation_uuid, epoch, lane_id, copy, version, tenant_id, event_type, topic,
            ordering_key, idempotency_key, correlation_id, causation_id, headers, payload)
        SELECT nextval('onceward.message_seq'), v_xid, least(u.published, v_now), u.occurred, u.id,
               u.correlation_uuid, (SELECT epoch FROM onceward.log_state), u.lane, 1, u.version, u.tenant,
               u.event_type, u.topic,
               u.ordering_key, u.idempotency_key, u.correlation, u.causation, u.headers::json, u.payload::json
        FROM unnest(p_key, p_id, p_lane, p_version, p_tenant, p_event_type, p_topic, p_ordering_key,
                    p_idempotency_key, p_correlation_uuid, p_correlation, p_causation, p_headers, p_payload,
                    p_occurred, p_published)
            AS u(key, id, lane, version, tenant, event_type, topic, ordering_key,
                 idempotency_key, correlation_uuid, correlation, causation, headers, payload,
                 occurred, published)
        WHERE v_all OR v_fresh ? (u.tenant || ':' || u.key)
        RETURNING lane_id)
    SELECT array_agg(DISTINCT l.lane_id) INTO v_lanes
    FROM landed l;
    IF EXISTS (SELECT FROM onceward.cancelled_arrival) THEN
        PERFORM onceward.cancel_landed(p_consumer, p_id, v_lanes);
    END IF;
    RETURN coalesce(v_lanes, '{}');
END
$$;

-- Writes positions; none moves back unless p_replace is set.
CREATE FUNCTION onceward.save_positions(p_positions jsonb, p_replace boolean) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.bus_position AS b (queue, source, partition, next_offset, last_ms)
    SELECT p.queue, p.source, p.partition, p.next_offset, p.last_ms
    FROM jsonb_to_recordset(p_positions)
         AS p(queue text, source text, partition int, next_offset bigint, last_ms bigint)
    -- In the same order for every writer, so that two writers cannot deadlock.
    ORDER BY p.queue, p.source, p.partition
    ON CONFLICT (queue, source, partition) DO UPDATE
    SET next_offset = EXCLUDED.next_offset,
        last_ms = EXCLUDED.last_ms,
        written_at = EXCLUDED.written_at
    WHERE p_replace OR EXCLUDED.next_offset > b.next_offset
$$;

-- The positions of these queues.
CREATE FUNCTION onceward.positions(p_queues text[])
    RETURNS TABLE (queue text, source text, partition int, next_offset bigint, last_ms bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT b.queue, b.source, b.partition, b.next_offset, b.last_ms
    FROM onceward.bus_position b
    WHERE b.queue = ANY (p_queues)
$$;

-- For operators who want a queue to be read again: with its readers stopped, delete its positions, and only
-- then reset the offsets on the bus. Messages that the inbox still remembers are not handled again.
CREATE FUNCTION onceward.forget_positions(p_queue text) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH gone AS (DELETE FROM onceward.bus_position b WHERE b.queue = p_queue RETURNING 1)
    SELECT count(*) FROM gone
$$;

-- Counts messages that landed from a bus that cannot report the age of waiting messages.
CREATE FUNCTION onceward.count_landed(p_queue text, p_count bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.bus_landed AS l (queue, landed)
    VALUES (p_queue, p_count)
    ON CONFLICT (queue) DO UPDATE
    SET landed = l.landed + EXCLUDED.landed
$$;

-- Records how many messages wait in queues of a bus that keeps their order but cannot report their age.
-- Returns for each queue a time before which none of its waiting messages was published: the age computed
-- from it is never too small. p_age is how long ago the bus was queried, p_in_hand how many messages its
-- readers may have had in flight then.
CREATE FUNCTION onceward.note_backlogs(p_queues text[], p_waiting bigint[], p_age interval, p_in_hand bigint)
    RETURNS TABLE (queue text, oldest_at timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.bus_backlog AS b (queue, checked_at, oldest_at, mark_at, mark_waiting, mark_landed)
    SELECT u.queue, t.asked_at, CASE WHEN u.waiting > 0 THEN t.asked_at END, t.asked_at, u.waiting,
           coalesce(l.landed, 0)
    FROM unnest(p_queues, p_waiting) AS u(queue, waiting)
    CROSS JOIN (SELECT clock_timestamp() - p_age AS asked_at) t
    LEFT JOIN onceward.bus_landed l ON l.queue = u.queue
    ORDER BY u.queue
    ON CONFLICT (queue) DO UPDATE
    SET checked_at = EXCLUDED.checked_at,
        oldest_at = CASE
            -- No message waits.
            WHEN EXCLUDED.mark_waiting = 0 THEN NULL
            -- All waiting messages arrived after the queue was last seen empty.
            WHEN b.oldest_at IS NULL THEN b.checked_at
            -- All messages that waited at the mark have landed, so those that wait now arrived after it.
            WHEN EXCLUDED.mark_landed - b.mark_landed >= b.mark_waiting + p_in_hand THEN b.mark_at
            ELSE b.oldest_at END,
        -- A new mark is set once the messages of the last one have landed.
        (mark_at, mark_waiting, mark_landed) = (
            SELECT m.at, m.waiting, m.landed
            FROM (VALUES
                (true, EXCLUDED.mark_at, EXCLUDED.mark_waiting, EXCLUDED.mark_landed),
                (false, b.mark_at, b.mark_waiting, b.mark_landed)) AS m(is_new, at, waiting, landed)
            WHERE m.is_new = (EXCLUDED.mark_waiting = 0
                              OR b.oldest_at IS NULL
                              OR EXCLUDED.mark_landed - b.mark_landed >= b.mark_waiting + p_in_hand))
    RETURNING b.queue, b.oldest_at
$$;
