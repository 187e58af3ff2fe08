-- The story of a request: everything with one correlation id. docs/decisions/0011-trace.md explains why it is found this
-- way: nothing here costs a publisher anything.
--
-- Functions that read stories see all tenants from a transaction that has none, and only its own from one that has.

-- The value of the sequence at a time, recorded by the sweep. A message's clock is read before its number is assigned, so
-- all messages written from then on have higher numbers.
CREATE TABLE onceward.log_mark (
    at  timestamptz PRIMARY KEY,
    seq bigint      NOT NULL
);

CREATE FUNCTION onceward.mark_log(p_every interval) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_seq bigint;
BEGIN
    IF EXISTS (SELECT FROM onceward.log_mark WHERE at > clock_timestamp() - p_every) THEN RETURN; END IF;
    -- The number first and then the time: in the other order a message in between would be missed.
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END INTO v_seq FROM onceward.message_seq s;
    INSERT INTO onceward.log_mark (at, seq) VALUES (clock_timestamp(), v_seq) ON CONFLICT DO NOTHING;
    DELETE FROM onceward.log_mark WHERE at < (SELECT min(opened_at) FROM onceward.log_epoch) - interval '1 hour';
END
$$;

-- The numbers between which everything was written from one time to another.
CREATE FUNCTION onceward.seq_range(p_from timestamptz, p_to timestamptz, OUT after_seq bigint, OUT upto_seq bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce((SELECT seq FROM onceward.log_mark WHERE at <= p_from ORDER BY at DESC LIMIT 1), 0),
           coalesce((SELECT seq FROM onceward.log_mark WHERE at >= p_to ORDER BY at LIMIT 1), 9223372036854775807)
$$;

ALTER TABLE onceward.log_epoch
    ADD COLUMN indexed_at  timestamptz,          -- since when its correlation ids have an index
    ADD COLUMN index_tries int NOT NULL DEFAULT 0;

-- A partition that closed long enough ago to have no writers, and has no index yet. The attempt is recorded beforehand, so
-- that an index that cannot be built is attempted less and less often.
CREATE FUNCTION onceward.epoch_to_index(p_settled interval) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch int;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19014, 0) THEN RETURN NULL; END IF;
    UPDATE onceward.log_epoch SET index_tries = index_tries + 1
    WHERE epoch = (SELECT e.epoch FROM onceward.log_epoch e
                   WHERE e.indexed_at IS NULL
                     AND e.closed_at < clock_timestamp() - p_settled * (1 + e.index_tries * e.index_tries)
                   ORDER BY e.epoch DESC LIMIT 1)
    RETURNING epoch INTO v_epoch;
    RETURN v_epoch;
END
$$;

-- Builds the indexes. No transaction writes to the partition any more; if one does, this fails immediately.
CREATE FUNCTION onceward.index_epoch(p_epoch int) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(19014, 0) THEN RETURN false; END IF;
    PERFORM set_config('lock_timeout', '500ms', true);
    EXECUTE format('CREATE INDEX IF NOT EXISTS message_log_%1$s_correlation_uuid ON onceward.message_log_%1$s (correlation_uuid)
                    WHERE correlation_uuid IS NOT NULL', p_epoch);
    EXECUTE format('CREATE INDEX IF NOT EXISTS message_log_%1$s_correlation_id ON onceward.message_log_%1$s (correlation_id)
                    WHERE correlation_id IS NOT NULL', p_epoch);
    UPDATE onceward.log_epoch SET indexed_at = clock_timestamp() WHERE epoch = p_epoch;
    RETURN true;
END
$$;

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

-- The rows of a story in one partition, in the order in which they were written, without payloads. If numbers are given, only
-- rows between them are read, lane by lane; otherwise all. p_readers maps each queue to its consumer.
-- read: the lane's last turn has read past it, so it was handled, deferred or dead-lettered.
CREATE FUNCTION onceward.story_log(
    p_epoch int, p_correlation text, p_after bigint, p_upto bigint, p_readers jsonb, p_limit int)
    RETURNS TABLE (
        seq bigint, xid text, copy smallint, queue text, written_at timestamptz, occurred_at timestamptz, id uuid, event_type text,
        topic text, tenant_id text, ordering_key text, causation_id text, aggregate_type text, aggregate_id text, read boolean,
        relayed_at timestamptz, landed_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    v_uuid  uuid := CASE WHEN p_correlation ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN p_correlation::uuid END;
    v_own   text := nullif(current_setting('onceward.tenant_id', true), '');
    v_found text;
BEGIN
    IF p_after IS NULL THEN
        v_found := 'SELECT m.* FROM onceward.message_log_%s m
                    WHERE (m.correlation_uuid = $1 OR m.correlation_id = $2) AND ($3 IS NULL OR m.tenant_id = $3)';
    ELSE
        v_found := 'SELECT m.* FROM (SELECT -1 AS id UNION ALL SELECT 0 UNION ALL SELECT u.id FROM onceward.unrouted_lane u UNION ALL SELECT a.id FROM onceward.lane a WHERE $3 IS NULL OR a.tenant_id = $3) a
                    CROSS JOIN LATERAL (
                        SELECT * FROM onceward.message_log_%s b
                        WHERE b.lane_id = a.id AND b.seq > $4 AND b.seq <= $5 AND (b.correlation_uuid = $1 OR b.correlation_id = $2)
                          AND ($3 IS NULL OR b.tenant_id = $3) OFFSET 0) m';
    END IF;
    RETURN QUERY EXECUTE format('
        SELECT m.seq, m.xid::text, m.copy, q.name, m.created_at, coalesce(m.occurred_at, m.created_at), m.id,
               m.event_type || ''.v'' || m.version, m.topic, m.tenant_id, m.ordering_key, m.causation_id, m.aggregate_type,
               m.aggregate_id,
               m.lane_id > 0 AND m.seq <= coalesce(c.last_seq, 0) AND NOT EXISTS (
                   SELECT FROM unnest(c.open_xids, c.open_floors) AS o(xid, floor) WHERE o.xid = m.xid AND m.seq > o.floor),
               CASE WHEN r.published_at IS NOT NULL THEN greatest(r.published_at, m.created_at) END, i.received_at
        FROM (SELECT f.* FROM (' || v_found || ') f ORDER BY f.seq LIMIT $7) m
        LEFT JOIN onceward.lane l ON l.id = m.lane_id
        LEFT JOIN onceward.queue q ON q.id = l.queue_id
        LEFT JOIN LATERAL (SELECT t.last_seq, t.open_xids, t.open_floors FROM onceward.lane_turn t
                           WHERE t.lane_id = m.lane_id ORDER BY t.turn DESC LIMIT 1) c ON true
        LEFT JOIN LATERAL (SELECT b.published_at FROM onceward.relay_batch b
                           WHERE q.name = ''@outbox'' AND b.lane_id = m.lane_id AND b.last_seq >= m.seq
                           ORDER BY b.last_seq LIMIT 1) r ON true
        LEFT JOIN onceward.inbox i ON m.copy > 0 AND i.consumer = $6->>q.name AND i.tenant_id = m.tenant_id
                                  AND i.idempotency_key = coalesce(m.idempotency_key, m.id::text)
        ORDER BY m.seq', p_epoch)
    USING v_uuid, p_correlation, v_own, p_after, p_upto, p_readers, p_limit;
END
$$;

-- The deferred messages of a story. Only ids have an index here; for anything else all rows are read. A held row stands for a dead
-- letter, which is reported as such.
CREATE FUNCTION onceward.story_deferred(p_correlation text, p_ids uuid[], p_limit int)
    RETURNS TABLE (
        id uuid, queue text, state text, due_at timestamptz, attempts int, first_error text, last_error text, first_failed_at timestamptz,
        written_at timestamptz, occurred_at timestamptz, event_type text, topic text, tenant_id text, ordering_key text, causation_id text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
BEGIN
    RETURN QUERY
    SELECT (d.message->>'id')::uuid, q.name, d.state, d.due_at, d.attempts, d.first_error, d.last_error, d.first_failed_at,
           d.created_at, onceward.occurred(d.message), (d.message->>'event_type') || '.v' || (d.message->>'version'),
           d.message->>'topic', d.tenant_id, d.ordering_key, d.message->>'causation_id'
    FROM onceward.deferred d JOIN onceward.queue q ON q.id = d.queue_id
    WHERE ((p_correlation IS NOT NULL AND d.message->>'correlation_id' = p_correlation)
           OR (p_correlation IS NULL AND (d.message->>'id')::uuid = ANY (p_ids)))
      AND d.state <> 'held'
      AND onceward.sees(d.tenant_id)
    ORDER BY d.id LIMIT p_limit;
END
$$;

-- The failed attempts of these messages that the caller may see, oldest first. Their number is bounded by the number of messages.
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
        letter bigint, id uuid, queue text, consumer text, status text, tag text, reason text, attempts int, first_error text,
        last_error text, first_failed_at timestamptz, dead_at timestamptz, occurred_at timestamptz, event_type text, topic text,
        tenant_id text, ordering_key text, causation_id text, acts jsonb, attempt_log jsonb, followers bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT d.id, d.event_id, d.queue, d.consumer, d.status, d.tag, d.reason, d.attempts, d.first_error, d.last_error,
           d.first_failed_at, d.dead_at, d.occurred_at, d.event_type || '.v' || d.version, d.message->>'topic', d.tenant_id,
           d.ordering_key, d.message->>'causation_id',
           (SELECT coalesce(jsonb_agg(jsonb_build_object('act', a.act, 'actor', a.actor, 'why', a.why, 'tag', a.tag, 'at', a.at)
                                      ORDER BY a.id), '[]')
            FROM onceward.dead_letter_act a WHERE a.dead_letter_id = d.id),
           d.attempt_log, onceward.followers(d.id)
    FROM onceward.dead_letters d
    WHERE d.correlation_id = p_correlation AND onceward.sees(d.tenant_id)
    ORDER BY d.id LIMIT p_limit
$$;

-- Removes the bindings of a queue that no release declares any more. Its waiting messages stay.
CREATE FUNCTION onceward.unbind_queue(p_queue text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_gone bigint;
BEGIN
    PERFORM FROM onceward.log_state FOR UPDATE;
    DELETE FROM onceward.binding b USING onceward.queue q WHERE q.id = b.queue_id AND q.name = p_queue;
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    IF v_gone > 0 THEN
        UPDATE onceward.log_state SET topology_version = topology_version + 1;
    END IF;
    RETURN v_gone;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA onceward FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA onceward TO onceward_app;
REVOKE ALL ON FUNCTION onceward.unbind_queue(text) FROM onceward_app;
-- Only a relay's turn marks itself, in onceward.places.
REVOKE ALL ON FUNCTION onceward.mark_quiet() FROM onceward_app;
