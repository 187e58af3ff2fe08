-- Take turns: workers lock lanes and read them from their positions.

-- The lanes of a queue that have work now. A bitmap scan would read the whole lane instead of its front, and
-- without fresh statistics the planner considers it cheaper: polling would cost more the more messages wait.
CREATE FUNCTION onceward.lanes_with_work(p_queue int)
    RETURNS TABLE (lane_id int, tenant_id text, priority smallint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    AS $$
BEGIN
    RETURN QUERY
    SELECT l.id, l.tenant_id, l.priority
    FROM onceward.lane l
    LEFT JOIN LATERAL (
        SELECT t.last_seq, t.open_xids
        FROM onceward.lane_turn t
        WHERE t.lane_id = l.id
        ORDER BY t.turn DESC
        LIMIT 1) c ON true
    WHERE l.queue_id = p_queue
      AND (EXISTS (
               SELECT
               FROM onceward.message_log m
               WHERE m.lane_id = l.id AND m.seq > coalesce(c.last_seq, 0))
           OR EXISTS (
               SELECT
               FROM unnest(c.open_xids) AS x
               WHERE pg_visible_in_snapshot(x, pg_current_snapshot()))
           OR EXISTS (
               SELECT
               FROM onceward.deferred d
               WHERE d.lane_id = l.id AND d.due_at <= clock_timestamp()));
END
$$;

-- Milliseconds until the next deferred message of this queue is due; NULL if none is.
CREATE FUNCTION onceward.next_due_ms(p_queue int) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT greatest(0, ceil(extract(epoch FROM min(d.due_at) - clock_timestamp()) * 1000))::bigint
    FROM onceward.deferred d
    WHERE d.queue_id = p_queue AND d.due_at IS NOT NULL
$$;

-- Marks this transaction as one that will append nothing, until it ends. FALSE: all slots are in use, so it
-- is not marked, and readers wait for it as for any transaction. Sessions start at different slots, so that
-- they seldom collide. It runs in every turn of a relay, as the owner and with the search_path of its caller,
-- onceward.places.
CREATE FUNCTION onceward.mark_quiet() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM onceward.quiet_turn
    WHERE slot = pg_backend_pid() % 64
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM onceward.quiet_turn
        LIMIT 1
        FOR UPDATE SKIP LOCKED;
    END IF;
    RETURN FOUND;
END
$$;

-- The positions of lanes, and the messages that are handled before new ones. First comes a row per lane,
-- without a seq (`about`: the lane's position, the snapshot it was read with, and an id taken right after
-- it); then deferred messages that are due, then late ones. It reads with the snapshot of the calling
-- statement, which then reads the new messages; it is planned with that statement.
--
-- The snapshot does not list open transactions from its xmax on. An id taken after it bounds them from above,
-- and the sooner it is taken, the fewer are between the two. An open transaction is searched for late
-- messages when it has ended. A turn that is `p_quiet` will append none and is marked as such, so other
-- readers need not search for its messages: it is `quiet`. A mark of a transaction that has ended names no
-- open one, because no id is assigned twice while a row still contains it. Only a transaction without an id
-- is marked, because it has appended nothing before; and once it is marked, it cannot append
-- (onceward.refuse_quiet).
CREATE FUNCTION onceward.places(p_lanes int[], p_limit int, p_quiet boolean)
    RETURNS TABLE (
        lane_id int, about json, seq bigint, created_at timestamptz, occurred_at timestamptz, id uuid,
        version smallint, event_type text, topic text, ordering_key text, idempotency_key text,
        correlation_uuid uuid, correlation_id text, causation_id text, headers json, payload json,
        last_seq bigint, tenant_id text, has_blocked boolean, has_cancelled boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_wrote_nothing boolean := pg_current_xact_id_if_assigned() IS NULL;
BEGIN
    RETURN QUERY
    WITH place AS MATERIALIZED (
        SELECT l.id AS lane_id, n.tenant_id,
               coalesce(c.turn, 0) AS turn,
               coalesce(c.last_seq, 0) AS last_seq,
               coalesce(c.open_xids, '{}') AS open_xids,
               coalesce(c.open_floors, '{}') AS open_floors,
               coalesce(c.careful_until, 0) AS careful_until,
               EXISTS (
                   SELECT
                   FROM onceward.deferred d
                   WHERE d.lane_id = l.id AND d.ordering_key IS NOT NULL AND d.blocks) AS has_blocked,
               EXISTS (SELECT FROM onceward.cancelled k WHERE k.lane_id = l.id) AS has_cancelled
        FROM unnest(p_lanes) AS l(id)
        JOIN onceward.lane n ON n.id = l.id
        LEFT JOIN LATERAL (
            SELECT t.*
            FROM onceward.lane_turn t
            WHERE t.lane_id = l.id
            ORDER BY t.turn DESC
            LIMIT 1) c ON true)
    -- The positions.
    SELECT p.lane_id,
           json_build_object(
               'turn', p.turn,
               'last_seq', p.last_seq,
               'open_xids', p.open_xids::text,
               'open_floors', p.open_floors,
               'careful_until', p.careful_until,
               'starts', coalesce(s.starts, 0),
               'snapshot', pg_current_snapshot()::text,
               'xid', pg_current_xact_id()::text,
               -- Both are evaluated once for all lanes, because they do not depend on them.
               'quiet', CASE WHEN (
                   SELECT CASE WHEN NOT p_quiet THEN NULL
                               WHEN v_wrote_nothing THEN onceward.mark_quiet()
                               ELSE false END) IS NOT NULL
               THEN ARRAY(
                   SELECT o.xid
                   FROM (
                       SELECT x::text::bigint
                       FROM pg_snapshot_xip(pg_current_snapshot()) AS x
                       UNION ALL
                       SELECT generate_series(
                           pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                           pg_current_xact_id()::text::bigint - 1)) AS o(xid)
                   WHERE o.xid & 4294967295 = ANY (ARRAY(
                       SELECT q.xmax::text::bigint
                       FROM onceward.quiet_turn q))) END),
           NULL::bigint, NULL::timestamptz, NULL::timestamptz, NULL::uuid, NULL::smallint, NULL, NULL, NULL,
           NULL, NULL::uuid, NULL, NULL, NULL::json, NULL::json,
           p.last_seq, p.tenant_id, p.has_blocked, p.has_cancelled
    FROM place p
    LEFT JOIN onceward.turn_start s ON s.lane_id = p.lane_id AND s.turn = p.turn + 1
    UNION ALL
    -- Deferred messages that are due.
    SELECT p.lane_id,
           json_build_object(
               'aside', json_build_object(
                   'id', d.id,
                   'state', d.state,
                   'attempts', d.attempts,
                   'lease', d.lease,
                   'lost', d.lost,
                   'starts_alone', d.starts_alone,
                   'first_error', d.first_error,
                   'first_failed_at', d.first_failed_at,
                   'unknown_since', d.unknown_since),
               'blocked', CASE WHEN d.blocks OR d.ordering_key IS NULL THEN false ELSE EXISTS (
                   SELECT
                   FROM onceward.deferred e
                   WHERE e.lane_id = p.lane_id AND e.ordering_key = d.ordering_key AND e.blocks) END),
           d.seq, d.created_at, (d.message->>'occurred_at')::timestamptz, (d.message->>'id')::uuid,
           (d.message->>'version')::smallint, d.message->>'event_type', d.message->>'topic', d.ordering_key,
           d.message->>'idempotency_key', NULL, d.message->>'correlation_id', d.message->>'causation_id',
           (d.message->'headers')::json, (d.message->'payload')::json,
           NULL, NULL, NULL, NULL
    FROM place p
    CROSS JOIN LATERAL (
        SELECT *
        FROM onceward.deferred d
        WHERE d.lane_id = p.lane_id AND d.due_at <= clock_timestamp()
        ORDER BY d.due_at, d.id
        LIMIT p_limit) d
    UNION ALL
    -- Late messages: those of transactions that were open when the lane was read past them, and have ended.
    SELECT p.lane_id,
           json_build_object(
               'late', true,
               'tenant_id', m.tenant_id,
               'cancelled', p.has_cancelled AND EXISTS (
                   SELECT
                   FROM onceward.cancelled k
                   WHERE k.lane_id = p.lane_id AND k.seq = m.seq),
               'blocked', m.ordering_key IS NOT NULL AND p.has_blocked AND EXISTS (
                   SELECT
                   FROM onceward.deferred d
                   WHERE d.lane_id = p.lane_id AND d.ordering_key = m.ordering_key AND d.blocks)),
           m.seq, m.created_at, m.occurred_at, m.id, nullif(m.version, 1::smallint), m.event_type, m.topic,
           m.ordering_key, m.idempotency_key, m.correlation_uuid, m.correlation_id, m.causation_id, m.headers,
           m.payload, NULL, NULL, NULL, NULL
    FROM place p
    CROSS JOIN LATERAL (
        SELECT array_agg(o.xid) AS xids, min(o.floor) AS floor
        FROM unnest(p.open_xids, p.open_floors) AS o(xid, floor)
        WHERE pg_visible_in_snapshot(o.xid, pg_current_snapshot())) ended
    CROSS JOIN LATERAL (
        SELECT *
        FROM onceward.message_log m
        WHERE m.lane_id = p.lane_id
          AND m.seq > ended.floor
          AND m.seq <= p.last_seq
          AND m.xid = ANY (ended.xids)
          AND m.seq > (
              SELECT o.floor
              FROM unnest(p.open_xids, p.open_floors) AS o(xid, floor)
              WHERE o.xid = m.xid)
        ORDER BY m.seq
        LIMIT p_limit) m;
END
$$;

-- Takes turns in those of the given lanes that no other worker has locked: returns the rows of `places`, and
-- then the new messages. Every column that is not NULL has a cost, and nearly all messages are new, of the
-- lane's own tenant, in version 1 and not blocked. Whatever differs from that is in `about`, and version 1 is
-- NULL. Locking and reading are two statements, because reading needs a snapshot taken after the lock. Like
-- onceward.lanes_with_work it reads only the front of a lane.
CREATE FUNCTION onceward.take_turns(p_lanes int[], p_limit int)
    RETURNS TABLE (
        lane_id int, about json, seq bigint, created_at timestamptz, occurred_at timestamptz, id uuid,
        version smallint, event_type text, topic text, ordering_key text, idempotency_key text,
        correlation_uuid uuid, correlation_id text, causation_id text, headers json, payload json)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan SET enable_bitmapscan = off
    AS $$
DECLARE
    v_locked int[];
BEGIN
    v_locked := ARRAY(SELECT l FROM unnest(p_lanes) AS l WHERE pg_try_advisory_xact_lock(19012, l));
    RETURN QUERY
    WITH place AS MATERIALIZED (
        SELECT *
        FROM onceward.places(v_locked, p_limit, false))
    SELECT p.lane_id, p.about, p.seq, p.created_at, p.occurred_at, p.id, p.version, p.event_type, p.topic,
           p.ordering_key, p.idempotency_key, p.correlation_uuid, p.correlation_id, p.causation_id, p.headers,
           p.payload
    FROM place p
    UNION ALL
    SELECT p.lane_id,
           CASE WHEN p.has_cancelled AND EXISTS (
                    SELECT
                    FROM onceward.cancelled k
                    WHERE k.lane_id = p.lane_id AND k.seq = m.seq)
                THEN json_build_object('cancelled', true)
                WHEN m.ordering_key IS NOT NULL AND p.has_blocked AND EXISTS (
                    SELECT
                    FROM onceward.deferred d
                    WHERE d.lane_id = p.lane_id AND d.ordering_key = m.ordering_key AND d.blocks)
                THEN json_build_object('tenant_id', m.tenant_id, 'blocked', true)
                WHEN m.tenant_id <> p.tenant_id THEN json_build_object('tenant_id', m.tenant_id) END,
           m.seq, m.created_at, m.occurred_at, m.id, nullif(m.version, 1::smallint), m.event_type, m.topic,
           m.ordering_key, m.idempotency_key, m.correlation_uuid, m.correlation_id, m.causation_id, m.headers,
           m.payload
    FROM place p
    CROSS JOIN LATERAL (
        SELECT *
        FROM onceward.message_log m
        WHERE m.lane_id = p.lane_id AND m.seq > p.last_seq
        ORDER BY m.seq
        LIMIT p_limit) m
    WHERE p.seq IS NULL;
END
$$;

-- The messages that a relay publishes, of every tenant, read by the relay's own counterpart of
-- onceward.take_turns (platform/message-log/src/queue_reader.rs). Rows of a function are copied before they
-- are sent; those of a view are not. Only a transaction that declares itself a relay sees any: a query that
-- forgets to do so finds nothing.
CREATE VIEW onceward.message_to_carry AS
SELECT lane_id, seq, tenant_id, created_at, occurred_at, id, version, event_type, topic, ordering_key,
       idempotency_key, correlation_uuid, correlation_id, causation_id, headers, payload
FROM onceward.message_log
WHERE current_setting('onceward.relay', true) = 'on';
GRANT SELECT ON onceward.message_to_carry TO onceward_app;

-- Returns whether a deferred message blocks this key, so that later messages of the key must wait.
CREATE FUNCTION onceward.is_blocked(p_lane int, p_key text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT EXISTS (
        SELECT
        FROM onceward.deferred d
        WHERE d.lane_id = p_lane AND d.ordering_key = p_key AND d.blocks)
$$;

-- Returns whether this message of the log was cancelled.
CREATE FUNCTION onceward.is_cancelled(p_lane int, p_seq bigint) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT EXISTS (
        SELECT
        FROM onceward.cancelled k
        WHERE k.lane_id = p_lane AND k.seq = p_seq)
$$;

-- Records, outside the turn's own transaction, that the turn was started.
CREATE FUNCTION onceward.note_start(p_lanes int[], p_turns bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.turn_start AS s (lane_id, turn, starts)
    SELECT a.lane, a.turn, 1
    FROM unnest(p_lanes, p_turns) AS a(lane, turn)
    ON CONFLICT (lane_id, turn) DO UPDATE SET starts = s.starts + 1
$$;

-- Makes all messages of unknown types due: a worker that may know them has started.
CREATE FUNCTION onceward.recheck_waiting(p_queue int) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE onceward.deferred SET due_at = clock_timestamp()
    WHERE queue_id = p_queue AND state = 'unknown' AND due_at IS NOT NULL
$$;
