-- The story of a request: everything with one correlation id. docs/decisions/0011-trace.md explains why it is
-- found this way: nothing here costs a publisher anything.
--
-- Functions that read stories see all tenants from a transaction that has none, and only its own from one
-- that has.

-- The partitions to search.
CREATE FUNCTION onceward.story_parts()
    RETURNS TABLE (epoch int, opened_at timestamptz, closed_at timestamptz, indexed boolean, bytes bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT e.epoch, e.opened_at, e.closed_at, e.indexed_at IS NOT NULL, pg_relation_size(r.oid)
    FROM onceward.log_epoch e, LATERAL (SELECT to_regclass('onceward.message_log_' || e.epoch) AS oid) r
    WHERE r.oid IS NOT NULL
    ORDER BY e.epoch
$$;

-- The rows of a story in one partition, in the order in which they were written, without payloads. If numbers
-- are given, only rows between them are read, lane by lane; otherwise all. p_readers maps each queue to its
-- consumer. read: the lane's last turn has read past it, so it was handled, deferred or dead-lettered.
CREATE FUNCTION onceward.story_log(
    p_epoch int, p_correlation text, p_after bigint, p_upto bigint, p_readers jsonb, p_limit int)
    RETURNS TABLE (
        seq bigint, xid text, copy smallint, queue text, written_at timestamptz, occurred_at timestamptz,
        id uuid, event_type text, topic text, tenant_id text, ordering_key text, causation_id text,
        aggregate_type text, aggregate_id text, read boolean, relayed_at timestamptz, landed_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    v_uuid  uuid := CASE WHEN p_correlation ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                         THEN p_correlation::uuid END;
    v_own   text := nullif(current_setting('onceward.tenant_id', true), '');
    v_found text;
BEGIN
    IF p_after IS NULL THEN
        v_found := '
            SELECT m.*
            FROM onceward.message_log_%s m
            WHERE (m.correlation_uuid = $1 OR m.correlation_id = $2)
              AND ($3 IS NULL OR m.tenant_id = $3)';
    ELSE
        v_found := '
            SELECT m.*
            FROM (
                SELECT -1 AS id
                UNION ALL
                SELECT 0
                UNION ALL
                SELECT u.id
                FROM onceward.unrouted_lane u
                UNION ALL
                SELECT a.id
                FROM onceward.lane a
                WHERE $3 IS NULL OR a.tenant_id = $3) a
            CROSS JOIN LATERAL (
                SELECT *
                FROM onceward.message_log_%s b
                WHERE b.lane_id = a.id
                  AND b.seq > $4
                  AND b.seq <= $5
                  AND (b.correlation_uuid = $1 OR b.correlation_id = $2)
                  AND ($3 IS NULL OR b.tenant_id = $3)
                OFFSET 0) m';
    END IF;
    RETURN QUERY EXECUTE format('
        SELECT m.seq, m.xid::text, m.copy, q.name, m.created_at, coalesce(m.occurred_at, m.created_at), m.id,
               m.event_type || ''.v'' || m.version, m.topic, m.tenant_id, m.ordering_key, m.causation_id,
               m.aggregate_type, m.aggregate_id,
               m.lane_id > 0 AND m.seq <= coalesce(c.last_seq, 0) AND NOT EXISTS (
                   SELECT
                   FROM unnest(c.open_xids, c.open_floors) AS o(xid, floor)
                   WHERE o.xid = m.xid AND m.seq > o.floor),
               CASE WHEN r.published_at IS NOT NULL THEN greatest(r.published_at, m.created_at) END,
               i.received_at
        FROM (
            SELECT f.*
            FROM (' || v_found || ') f
            ORDER BY f.seq
            LIMIT $7) m
        LEFT JOIN onceward.lane l ON l.id = m.lane_id
        LEFT JOIN onceward.queue q ON q.id = l.queue_id
        LEFT JOIN LATERAL (
            SELECT t.last_seq, t.open_xids, t.open_floors
            FROM onceward.lane_turn t
            WHERE t.lane_id = m.lane_id
            ORDER BY t.turn DESC
            LIMIT 1) c ON true
        LEFT JOIN LATERAL (
            SELECT b.published_at
            FROM onceward.relay_batch b
            WHERE q.name = ''@outbox'' AND b.lane_id = m.lane_id AND b.last_seq >= m.seq
            ORDER BY b.last_seq
            LIMIT 1) r ON true
        LEFT JOIN onceward.inbox i
            ON m.copy > 0
            AND i.consumer = $6->>q.name
            AND i.tenant_id = m.tenant_id
            AND i.idempotency_key = coalesce(m.idempotency_key, m.id::text)
        ORDER BY m.seq', p_epoch)
    USING v_uuid, p_correlation, v_own, p_after, p_upto, p_readers, p_limit;
END
$$;

-- The deferred messages of a story. Only ids have an index here; for anything else all rows are read. A held
-- row stands for a dead letter, which is reported as such.
CREATE FUNCTION onceward.story_deferred(p_correlation text, p_ids uuid[], p_limit int)
    RETURNS TABLE (
        id uuid, queue text, state text, due_at timestamptz, attempts int, first_error text, last_error text,
        first_failed_at timestamptz, written_at timestamptz, occurred_at timestamptz, event_type text,
        topic text, tenant_id text, ordering_key text, causation_id text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    AS $$
BEGIN
    RETURN QUERY
    SELECT (d.message->>'id')::uuid, q.name, d.state, d.due_at, d.attempts, d.first_error, d.last_error,
           d.first_failed_at, d.created_at, onceward.occurred(d.message),
           (d.message->>'event_type') || '.v' || (d.message->>'version'), d.message->>'topic',
           d.tenant_id, d.ordering_key, d.message->>'causation_id'
    FROM onceward.deferred d
    JOIN onceward.queue q ON q.id = d.queue_id
    WHERE ((p_correlation IS NOT NULL AND d.message->>'correlation_id' = p_correlation)
           OR (p_correlation IS NULL AND (d.message->>'id')::uuid = ANY (p_ids)))
      AND d.state <> 'held'
      AND onceward.sees(d.tenant_id)
    ORDER BY d.id
    LIMIT p_limit;
END
$$;

-- The failed attempts of these messages that the caller may see, oldest first. Their number is bounded by the
-- number of messages.
CREATE FUNCTION onceward.story_attempts(p_ids uuid[])
    RETURNS TABLE (id uuid, queue text, attempt int, at timestamptz, error text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT a.event_id, a.queue, a.attempt, a.at, a.error
    FROM onceward.failed_attempt a
    WHERE a.event_id = ANY (p_ids) AND onceward.sees(a.tenant_id)
    ORDER BY a.at, a.slot
$$;

-- The dead letters of a story, and the actions of operators on them.
CREATE FUNCTION onceward.story_dead(p_correlation text, p_limit int)
    RETURNS TABLE (
        letter bigint, id uuid, queue text, consumer text, status text, tag text, reason text, attempts int,
        first_error text, last_error text, first_failed_at timestamptz, dead_at timestamptz,
        occurred_at timestamptz, event_type text, topic text, tenant_id text, ordering_key text,
        causation_id text, acts jsonb, attempt_log jsonb, followers bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT d.id, d.event_id, d.queue, d.consumer, d.status, d.tag, d.reason, d.attempts,
           d.first_error, d.last_error, d.first_failed_at, d.dead_at,
           d.occurred_at, d.event_type || '.v' || d.version, d.message->>'topic', d.tenant_id, d.ordering_key,
           d.message->>'causation_id',
           (SELECT coalesce(
                jsonb_agg(
                    jsonb_build_object('act', a.act, 'actor', a.actor, 'why', a.why, 'tag', a.tag, 'at', a.at)
                    ORDER BY a.id),
                '[]')
            FROM onceward.dead_letter_act a
            WHERE a.dead_letter_id = d.id),
           d.attempt_log, onceward.followers(d.id)
    FROM onceward.dead_letters d
    WHERE d.correlation_id = p_correlation AND onceward.sees(d.tenant_id)
    ORDER BY d.id
    LIMIT p_limit
$$;
