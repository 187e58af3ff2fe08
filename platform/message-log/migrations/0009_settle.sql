-- Settle: messages that a turn did not handle are deferred, deferred ones are settled, and dead ones become
-- letters.

-- Defers messages. Their ids are in the order of the rows: followers of a key are released in that order.
CREATE FUNCTION onceward.defer(p_rows jsonb) RETURNS TABLE (lane_id int, seq bigint, id bigint)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.deferred (
        lane_id, queue_id, seq, state,
        due_at,
        blocks, attempts, lease, worker, first_error, last_error, first_failed_at,
        unknown_since,
        tenant_id, ordering_key, created_at, message)
    SELECT r.lane_id, l.queue_id, r.seq, r.state,
           CASE WHEN r.due_in_ms IS NULL THEN NULL ELSE clock_timestamp() + r.due_in_ms * interval '1 ms' END,
           r.blocks, r.attempts, r.lease, r.worker, r.first_error, r.last_error, r.first_failed_at,
           CASE WHEN r.state = 'unknown' THEN clock_timestamp() END,
           l.tenant_id, r.ordering_key, r.created_at, r.message
    FROM ROWS FROM (jsonb_to_recordset(p_rows) AS (
            lane_id int, seq bigint, state text, due_in_ms bigint, blocks boolean, attempts int, lease bigint,
            worker text, first_error text, last_error text, first_failed_at timestamptz, ordering_key text,
            created_at timestamptz, message jsonb))
        WITH ORDINALITY
        AS r(lane_id, seq, state, due_in_ms, blocks, attempts, lease,
             worker, first_error, last_error, first_failed_at, ordering_key,
             created_at, message, nth)
    JOIN onceward.lane l ON l.id = r.lane_id
    ORDER BY r.nth                               -- a hash join would change their order
    RETURNING lane_id, seq, id
$$;

-- Defers a deferred message again: after a failed attempt, for a newer worker, or behind its predecessor.
CREATE FUNCTION onceward.redefer(p_rows jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.deferred d
    SET state = r.state,
        blocks = r.blocks,
        attempts = r.attempts,
        lease = r.lease,
        worker = r.worker,
        lost = coalesce(r.lost, 0),
        starts_alone = CASE WHEN r.state = 'leased' THEN d.starts_alone ELSE 0 END,
        due_at = CASE WHEN r.due_in_ms IS NULL THEN NULL
                      ELSE clock_timestamp() + r.due_in_ms * interval '1 ms' END,
        first_error = coalesce(d.first_error, r.last_error),
        last_error = coalesce(r.last_error, d.last_error),
        first_failed_at = CASE WHEN r.last_error IS NULL THEN d.first_failed_at
                               ELSE coalesce(d.first_failed_at, clock_timestamp()) END,
        unknown_since = CASE WHEN r.state = 'unknown' THEN coalesce(d.unknown_since, clock_timestamp())
                             -- These states do not tell whether the worker knows the type.
                             WHEN r.state IN ('leased', 'parked') THEN d.unknown_since END
    FROM jsonb_to_recordset(p_rows) AS r(
        id bigint, state text, due_in_ms bigint, blocks boolean, attempts int, lease bigint, lost int,
        worker text, last_error text)
    WHERE d.id = r.id;
    -- Followers that were released with it wait again.
    UPDATE onceward.deferred f SET due_at = NULL
    FROM jsonb_to_recordset(p_rows) AS r(id bigint, state text)
    JOIN onceward.deferred d ON d.id = r.id
    WHERE r.state <> 'parked'
      AND d.ordering_key IS NOT NULL
      AND d.blocks
      AND f.lane_id = d.lane_id
      AND f.ordering_key = d.ordering_key
      AND f.blocks
      AND f.id > d.id
      AND f.state = 'parked'
      AND f.due_at IS NOT NULL;
END
$$;

-- Settles deferred messages: their rows are deleted, and at most p_release followers of each key become due,
-- in their order. A row that does not exist any more was settled by another worker, so the transaction must
-- fail.
CREATE FUNCTION onceward.settle_deferred(p_ids bigint[], p_release int) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();    -- one time for all, so that the ids determine the order
    v_gone  int;
    v_lanes int[];
    v_keys  text[];
BEGIN
    WITH gone AS (
        DELETE FROM onceward.deferred d
        WHERE d.id = ANY (p_ids)
        RETURNING d.lane_id, d.ordering_key)
    SELECT count(*),
           array_agg(g.lane_id) FILTER (WHERE g.ordering_key IS NOT NULL),
           array_agg(g.ordering_key) FILTER (WHERE g.ordering_key IS NOT NULL)
    INTO v_gone, v_lanes, v_keys
    FROM gone g;
    IF v_gone < cardinality(p_ids) THEN
        RAISE EXCEPTION 'another worker has settled this message' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE onceward.deferred f SET due_at = v_now
    FROM (
        SELECT DISTINCT k.lane_id, k.ordering_key
        FROM unnest(v_lanes, v_keys) AS k(lane_id, ordering_key)) k
    CROSS JOIN LATERAL (
        SELECT n.id
        FROM onceward.deferred n
        WHERE n.lane_id = k.lane_id AND n.ordering_key = k.ordering_key AND n.blocks
        ORDER BY n.id
        LIMIT p_release) n
    WHERE f.id = n.id
      AND f.state = 'parked'
      AND f.due_at IS NULL
      AND NOT EXISTS (
          SELECT
          FROM onceward.deferred h
          WHERE h.lane_id = f.lane_id
            AND h.ordering_key = f.ordering_key
            AND h.blocks
            AND h.id < f.id
            AND h.state <> 'parked');
END
$$;

-- Records failed attempts. After the nineteenth only the latest is kept, so that the cost of an endlessly
-- retried message is bounded.
CREATE FUNCTION onceward.note_attempts(p_rows jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.failed_attempt AS a (event_id, queue, slot, attempt, at, error, tenant_id)
    SELECT DISTINCT ON (r.event_id, r.queue)
           r.event_id, r.queue, least(r.attempt, 20), r.attempt, clock_timestamp(), left(r.error, 500),
           r.tenant_id
    FROM jsonb_to_recordset(p_rows) AS r(event_id uuid, queue text, attempt int, error text, tenant_id text)
    ORDER BY r.event_id, r.queue, r.attempt DESC
    ON CONFLICT (event_id, queue, slot) DO UPDATE
    SET attempt = EXCLUDED.attempt,
        at = EXCLUDED.at,
        error = EXCLUDED.error
$$;

-- The failed attempts of a message in a queue, oldest first.
CREATE FUNCTION onceward.attempt_log(p_event uuid, p_queue text) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce(
        jsonb_agg(
            jsonb_build_object('attempt', a.attempt, 'at', a.at, 'error', a.error)
            ORDER BY a.at, a.slot),
        '[]')
    FROM onceward.failed_attempt a
    WHERE a.event_id = p_event AND a.queue = p_queue
$$;

-- The time of a stored message's event, if PostgreSQL can parse it.
CREATE FUNCTION onceward.occurred(p_message jsonb) RETURNS timestamptz
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN p_message->>'occurred_at' ~ '^[0-9]{4}-'
                THEN (p_message->>'occurred_at')::timestamptz END
$$;

-- Inserts dead letters. A message that was leased is identified by its deferred row. The row of a letter that
-- holds its key was written before, in the same transaction, and now gets the letter's number.
CREATE FUNCTION onceward.bury(p_rows jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH buried AS (
        INSERT INTO onceward.dead_letters (
            event_id, tenant_id, queue, consumer, dead_letter_exchange, event_type, version,
            ordering_key, correlation_id, reason, attempts, first_error, last_error, first_failed_at, message,
            lane_id, seq, occurred_at,
            attempt_log)
        SELECT r.event_id, r.tenant_id, r.queue, r.consumer, r.dead_letter_exchange, r.event_type, r.version,
               r.ordering_key, r.correlation_id, r.reason, r.attempts, r.first_error, r.last_error,
               r.first_failed_at, r.message,
               coalesce(r.lane_id, f.lane_id), coalesce(r.seq, f.seq, 0), onceward.occurred(r.message),
               onceward.attempt_log(r.event_id, r.queue)
        FROM jsonb_to_recordset(p_rows) AS r(
            event_id uuid, tenant_id text, queue text, consumer text, dead_letter_exchange text,
            event_type text, version int, ordering_key text, correlation_id text, reason text, attempts int,
            first_error text, last_error text, first_failed_at timestamptz, message jsonb, lane_id int,
            seq bigint, deferred_id bigint)
        LEFT JOIN onceward.deferred f ON f.id = r.deferred_id
        RETURNING id, event_id, lane_id)
    UPDATE onceward.deferred h
    SET dead_letter_id = held.letter
    FROM (
        SELECT b.id AS letter, f.id
        FROM buried b
        CROSS JOIN LATERAL (
            SELECT f.id
            FROM onceward.deferred f
            WHERE (f.message->>'id')::uuid = b.event_id
              AND f.lane_id = b.lane_id
              AND f.state = 'held'
              AND f.dead_letter_id IS NULL
            OFFSET 0) f) held
    WHERE h.id = held.id
$$;
