-- Relay: what relays report, and the state of messages in the outbox.

-- Records a relay's report on the bus; deletes relays that have not reported for a while.
CREATE FUNCTION onceward.note_relay(p_relay text, p_bus text, p_up boolean, p_error text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    DELETE FROM onceward.relay_state
    WHERE seen_at < clock_timestamp() - interval '2 minutes' AND relay <> p_relay;
    INSERT INTO onceward.relay_state AS s (relay, bus, up, since, last_error, seen_at)
    VALUES (p_relay, p_bus, p_up, clock_timestamp(), p_error, clock_timestamp())
    ON CONFLICT (relay) DO UPDATE
    SET bus = EXCLUDED.bus,
        up = EXCLUDED.up,
        last_error = EXCLUDED.last_error,
        seen_at = EXCLUDED.seen_at,
        since = CASE WHEN s.up = EXCLUDED.up THEN s.since ELSE EXCLUDED.since END
$$;

-- Deletes the report of a relay that stops.
CREATE FUNCTION onceward.forget_relay(p_relay text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ DELETE FROM onceward.relay_state WHERE relay = p_relay $$;

-- The publication state of a row of the outbox.
CREATE FUNCTION onceward.publication(p_lane int, p_seq bigint, p_xid xid8, p_id uuid, p_created timestamptz)
    RETURNS TABLE (attempt_count int, last_error text, next_retry_at timestamptz, published_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_outbox boolean := EXISTS (
        SELECT
        FROM onceward.lane l
        JOIN onceward.queue q ON q.id = l.queue_id
        WHERE l.id = p_lane AND q.name = '@outbox');
    v_turn   onceward.lane_turn;
BEGIN
    attempt_count := 0;
    IF NOT v_outbox AND p_lane <> 0 THEN
        published_at := p_created;
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT d.attempts, d.last_error, d.due_at INTO attempt_count, last_error, next_retry_at
    FROM onceward.deferred d
    WHERE d.queue_id = (SELECT id FROM onceward.queue WHERE name = '@outbox')
      AND (d.message->>'id')::uuid = p_id
      AND (p_lane = 0 OR d.lane_id = p_lane)
    LIMIT 1;
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT d.attempts, d.last_error INTO attempt_count, last_error
    FROM onceward.dead_letters d
    WHERE d.queue = '@outbox' AND d.event_id = p_id AND d.status <> 'requeued'
    LIMIT 1;
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    attempt_count := 0;
    IF p_lane = 0 THEN                           -- it was delayed
        published_at := p_created;
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT t.* INTO v_turn
    FROM onceward.lane_turn t
    WHERE t.lane_id = p_lane
    ORDER BY t.turn DESC
    LIMIT 1;
    IF p_seq <= coalesce(v_turn.last_seq, 0) AND NOT p_xid = ANY (coalesce(v_turn.open_xids, '{}')) THEN
        attempt_count := 1;
        -- The batches of the oldest partitions are deleted before their rows are.
        SELECT greatest(b.published_at, p_created) INTO published_at
        FROM onceward.relay_batch b
        WHERE b.lane_id = p_lane AND b.last_seq >= p_seq
        ORDER BY b.last_seq
        LIMIT 1;
        published_at := coalesce(published_at, p_created);
    END IF;
    RETURN NEXT;
END
$$;

-- The outbox under the names that existing consumers expect: one row per message. On the PostgreSQL bus the
-- commit that writes a message publishes it. On an external bus a row is published once the bus has confirmed
-- it to a relay; one that the bus refused waits with its error.
CREATE VIEW onceward.outbox_messages WITH (security_invoker = true) AS
SELECT m.id, m.tenant_id, m.aggregate_type, m.aggregate_id, m.event_type || '.v' || m.version AS event_type,
       m.topic, m.ordering_key, coalesce(m.idempotency_key, m.id::text) AS idempotency_key, m.payload,
       m.headers, coalesce(m.correlation_id, m.correlation_uuid::text) AS correlation_id, m.causation_id,
       m.created_at, coalesce(m.occurred_at, m.created_at) AS occurred_at, p.attempt_count, p.last_error,
       p.next_retry_at, p.published_at
FROM onceward.message_log m
CROSS JOIN LATERAL onceward.publication(m.lane_id, m.seq, m.xid, m.id, m.created_at) p
WHERE m.copy = 0;
GRANT SELECT ON onceward.outbox_messages TO onceward_app;

-- The deferred messages of the outbox: their number, those refused by the bus, one error, and their age. At
-- most p_sample are counted, and is_more reports whether more exist.
CREATE FUNCTION onceward.outbox_aside(p_sample int)
    RETURNS TABLE (
        put_aside bigint, oldest_seconds double precision, refused bigint, next_due_ms bigint,
        last_error text, is_more boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH outbox AS (
        SELECT q.id
        FROM onceward.queue q
        WHERE q.name = '@outbox'),
    -- Messages that are due first come first, and those behind others, which have no time of their own, last.
    aside AS (
        SELECT d.created_at, d.due_at, d.last_error
        FROM onceward.deferred d, outbox o
        WHERE d.queue_id = o.id
        ORDER BY d.due_at
        LIMIT p_sample + 1)
    SELECT least(count(*), p_sample),
           coalesce(extract(epoch FROM clock_timestamp() - min(a.created_at)), 0)::double precision,
           count(*) FILTER (WHERE a.due_at IS NOT NULL AND a.last_error IS NOT NULL),
           onceward.next_due_ms((SELECT o.id FROM outbox o)),
           (array_agg(a.last_error ORDER BY a.due_at)
               FILTER (WHERE a.due_at IS NOT NULL AND a.last_error IS NOT NULL))[1],
           count(*) > p_sample
    FROM aside a
$$;

-- Makes messages that the bus refused due now; all, or those of one event. Returns their number.
CREATE FUNCTION onceward.retry_outbox(p_event uuid, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    AS $$
DECLARE
    v_lanes int[];
    v_count bigint;
BEGIN
    WITH hurried AS (
        UPDATE onceward.deferred d SET due_at = clock_timestamp()
        WHERE d.id = ANY (ARRAY(
                SELECT w.id
                FROM onceward.deferred w
                WHERE w.queue_id = (SELECT q.id FROM onceward.queue q WHERE q.name = '@outbox')
                  AND w.due_at > clock_timestamp()
                  AND (p_event IS NULL OR (w.message->>'id')::uuid = p_event)
                  AND w.state = 'retry'
                  AND onceward.sees(w.tenant_id)
                ORDER BY w.due_at
                LIMIT p_limit))
          AND d.state = 'retry'
        RETURNING d.lane_id)
    SELECT count(*), array_agg(h.lane_id) INTO v_count, v_lanes
    FROM hurried h;
    PERFORM onceward.wake(v_lanes);
    RETURN v_count;
END
$$;
