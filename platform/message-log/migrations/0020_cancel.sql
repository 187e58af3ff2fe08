-- Cancel: a message that waits is not handled, and becomes a dead letter that holds no key. One that waits in
-- onceward.deferred is settled at once. One that is still unread in the log gets a row in onceward.cancelled,
-- and the turn that reads it passes it. One on its way over an external bus gets a row in
-- onceward.cancelled_arrival, and is cancelled when it lands.

-- The time at which a UUID of version 7 was created; NULL for others.
CREATE FUNCTION onceward.uuid_time(p_id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN substr(p_id::text, 15, 1) = '7' THEN
        to_timestamp(('x' || substr(replace(p_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) END
$$;

-- The numbers between which everything was written from one time to another.
CREATE FUNCTION onceward.seq_range(
    p_from timestamptz, p_to timestamptz, OUT after_seq bigint, OUT upto_seq bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce(
               (SELECT seq FROM onceward.log_mark WHERE at <= p_from ORDER BY at DESC LIMIT 1),
               0),
           coalesce(
               (SELECT seq FROM onceward.log_mark WHERE at >= p_to ORDER BY at LIMIT 1),
               9223372036854775807)
$$;

-- The rows of an event in the log that no turn has passed: those after their lane's position, and those of
-- transactions that were still open when the lane was read past them. Reads the waiting part of each lane, of
-- one queue or of all.
CREATE FUNCTION onceward.unread_rows(p_event uuid, p_queue text)
    RETURNS TABLE (lane_id int, seq bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT m.lane_id, m.seq
    FROM onceward.lane l
    JOIN onceward.queue q ON q.id = l.queue_id
    LEFT JOIN LATERAL (
        SELECT t.last_seq, t.open_xids, t.open_floors
        FROM onceward.lane_turn t
        WHERE t.lane_id = l.id
        ORDER BY t.turn DESC
        LIMIT 1) c ON true
    CROSS JOIN LATERAL (
        SELECT w.lane_id, w.seq
        FROM onceward.message_log w
        WHERE w.lane_id = l.id
          AND w.seq > coalesce((SELECT min(f) FROM unnest(c.open_floors) AS f), c.last_seq, 0)
          AND w.id = p_event
          AND (w.seq > coalesce(c.last_seq, 0)
               OR EXISTS (
                   SELECT FROM unnest(c.open_xids, c.open_floors) AS o(xid, floor)
                   WHERE o.xid = w.xid AND w.seq > o.floor))
        OFFSET 0) m
    WHERE (p_queue IS NULL OR q.name = p_queue)
      AND onceward.sees(l.tenant_id)
      AND NOT EXISTS (SELECT FROM onceward.cancelled k WHERE k.lane_id = m.lane_id AND k.seq = m.seq)
$$;

-- Makes a dead letter of a message that an operator cancelled, records the act, and returns the letter's
-- number. p_letter contains the columns that depend on where the message was found.
CREATE FUNCTION onceward.bury_cancelled(
    p_letter jsonb, p_queue onceward.queue, p_consumer text, p_actor text, p_why text)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_message jsonb := p_letter->'message';
    v_id      bigint;
BEGIN
    PERFORM onceward.bury(jsonb_build_array(p_letter || jsonb_build_object(
        'event_id', v_message->'id',
        'queue', p_queue.name,
        'consumer', coalesce(p_consumer, p_queue.name),
        'dead_letter_exchange', p_queue.definition->'dead_letter'->'exchange',
        'event_type', v_message->'event_type',
        'version', v_message->'version',
        'correlation_id', v_message->'correlation_id',
        'reason', 'cancelled',
        'last_error', format('cancelled by %s: %s', p_actor, p_why))));
    v_id := currval(pg_get_serial_sequence('onceward.dead_letters', 'id'));
    INSERT INTO onceward.dead_letter_act (
        dead_letter_id, tenant_id, queue, event_type, version, act, actor, why)
    SELECT d.id, d.tenant_id, d.queue, d.event_type, d.version, 'cancelled', p_actor, p_why
    FROM onceward.dead_letters d
    WHERE d.id = v_id;
    RETURN v_id;
END
$$;

-- Cancels a message of the log that no turn has passed. The caller holds its lane's lock, or has just
-- appended it.
CREATE FUNCTION onceward.cancel_unread(p_lane int, p_seq bigint, p_consumer text, p_actor text, p_why text)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_letter jsonb;
    v_queue  onceward.queue;
BEGIN
    SELECT jsonb_build_object(
               'tenant_id', l.tenant_id,
               'ordering_key', m.ordering_key,
               'attempts', 0,
               'lane_id', m.lane_id,
               'seq', m.seq,
               'message', jsonb_build_object(
                   'id', m.id,
                   'event_type', m.event_type,
                   'version', m.version,
                   'topic', m.topic,
                   'idempotency_key', coalesce(m.idempotency_key, m.id::text),
                   'correlation_id', coalesce(m.correlation_id, m.correlation_uuid::text),
                   'causation_id', m.causation_id,
                   'headers', m.headers::jsonb,
                   'payload', m.payload::jsonb,
                   'occurred_at', coalesce(m.occurred_at, m.created_at)))
    INTO v_letter
    FROM onceward.message_log m
    JOIN onceward.lane l ON l.id = m.lane_id
    WHERE m.lane_id = p_lane AND m.seq = p_seq;
    SELECT q.* INTO v_queue
    FROM onceward.lane l
    JOIN onceward.queue q ON q.id = l.queue_id
    WHERE l.id = p_lane;
    INSERT INTO onceward.cancelled (lane_id, seq)
    VALUES (p_lane, p_seq);
    RETURN onceward.bury_cancelled(v_letter, v_queue, p_consumer, p_actor, p_why);
END
$$;

-- Cancels messages that were cancelled on their way and have just landed. Their lanes' readers cannot see
-- them yet.
CREATE FUNCTION onceward.cancel_landed(p_consumer text, p_ids uuid[], p_lanes int[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM onceward.cancel_unread(m.lane_id, m.seq, p_consumer, m.actor, m.why)
    FROM (
        SELECT u.lane_id, u.seq, c.actor, c.why
        FROM onceward.cancelled_arrival c
        CROSS JOIN LATERAL onceward.unread_rows(c.event_id, c.queue) u
        WHERE c.event_id = ANY (p_ids) AND u.lane_id = ANY (p_lanes)) m;
END
$$;

-- The queues that a message of the log, which was read, belongs to: `handled` there, or expected to arrive
-- from the bus.
CREATE FUNCTION onceward.read_in(p_written onceward.message_log, p_readers jsonb)
    RETURNS TABLE (queue text, outcome text)
    LANGUAGE sql STABLE
    AS $$
    SELECT q.name, 'handled'
    FROM onceward.lane l
    JOIN onceward.queue q ON q.id = l.queue_id
    WHERE l.id = p_written.lane_id AND q.name <> '@outbox'
    UNION ALL
    -- A delayed message has no lane in the log; one that was relayed has that of the outbox.
    SELECT q.name,
           CASE WHEN s.bus = 'postgres' OR EXISTS (
               SELECT FROM onceward.inbox i
               WHERE i.consumer = p_readers->>q.name
                 AND i.tenant_id = p_written.tenant_id
                 AND i.idempotency_key = coalesce(p_written.idempotency_key, p_written.id::text))
           THEN 'handled' ELSE 'arrival' END
    FROM onceward.log_state s
    JOIN onceward.binding b ON b.exchange = split_part(p_written.topic, ':', 1)
        AND substr(p_written.topic, length(b.exchange) + 2) ~ b.regex
    JOIN onceward.queue q ON q.id = b.queue_id
    WHERE p_written.lane_id = 0
       OR EXISTS (
           SELECT FROM onceward.lane l
           JOIN onceward.queue o ON o.id = l.queue_id
           WHERE l.id = p_written.lane_id AND o.name = '@outbox')
$$;

-- Cancels a message in one queue or in all: it is not handled, and becomes a dead letter. Returns a row for
-- each queue in which it is known, with what became of it there: `cancelled`; `arrival`: it is cancelled when
-- it arrives from the bus; `in_flight`: a worker holds it; `dead`: it is already a dead letter; `handled`. No
-- row: the id is unknown. p_readers maps each queue to its consumer.
--
-- Waits for turns in the message's lanes, so that it is known afterwards whether they handled it.
CREATE FUNCTION onceward.cancel(p_event uuid, p_queue text, p_readers jsonb, p_actor text, p_why text)
    RETURNS TABLE (queue text, outcome text, letter bigint, tenant_id text, event_type text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
#variable_conflict use_column
DECLARE
    v_found   record;
    v_queue   onceward.queue;
    v_written onceward.message_log;
    v_lanes   int[];
    v_after   bigint;
    v_upto    bigint;
    v_known   text[] := '{}';
BEGIN
    PERFORM set_config('lock_timeout', '10s', true);
    SELECT array_agg(DISTINCT f.lane_id ORDER BY f.lane_id)
    INTO v_lanes
    FROM (
        SELECT d.lane_id
        FROM onceward.deferred d
        WHERE (d.message->>'id')::uuid = p_event AND onceward.sees(d.tenant_id)
        UNION ALL
        SELECT u.lane_id
        FROM onceward.unread_rows(p_event, p_queue) u) f;
    PERFORM pg_advisory_xact_lock(19012, l) FROM unnest(v_lanes) AS l;

    -- Those that are deferred. A lease may be returned at any time, so the rows are locked.
    FOR v_found IN
        SELECT d.*
        FROM onceward.deferred d
        JOIN onceward.queue q ON q.id = d.queue_id
        WHERE (d.message->>'id')::uuid = p_event
          AND d.lane_id = ANY (v_lanes)
          AND (p_queue IS NULL OR q.name = p_queue)
        ORDER BY d.id
        FOR UPDATE OF d
    LOOP
        SELECT q.* INTO v_queue
        FROM onceward.queue q
        WHERE q.id = v_found.queue_id;
        queue := v_queue.name;
        tenant_id := v_found.tenant_id;
        event_type := v_found.message->>'event_type';
        letter := v_found.dead_letter_id;
        v_known := v_known || queue;
        IF v_found.state = 'leased' THEN
            outcome := 'in_flight';
        ELSIF v_found.state = 'held' THEN
            outcome := 'dead';
        ELSE
            outcome := 'cancelled';
            letter := onceward.bury_cancelled(
                jsonb_build_object(
                    'tenant_id', v_found.tenant_id,
                    'ordering_key', v_found.ordering_key,
                    'attempts', v_found.attempts,
                    'lane_id', v_found.lane_id,
                    'seq', v_found.seq,
                    'first_error', v_found.first_error,
                    'first_failed_at', v_found.first_failed_at,
                    'message', v_found.message),
                v_queue, p_readers->>v_queue.name, p_actor, p_why);
            PERFORM onceward.settle_deferred(ARRAY[v_found.id], 500);
        END IF;
        RETURN NEXT;
    END LOOP;

    -- Those that are unread in the log.
    FOR v_found IN
        SELECT u.lane_id, u.seq, q.name
        FROM onceward.unread_rows(p_event, p_queue) u
        JOIN onceward.lane l ON l.id = u.lane_id
        JOIN onceward.queue q ON q.id = l.queue_id
        WHERE u.lane_id = ANY (v_lanes)
        ORDER BY u.seq
    LOOP
        letter := onceward.cancel_unread(
            v_found.lane_id, v_found.seq, p_readers->>v_found.name, p_actor, p_why);
        SELECT d.queue, 'cancelled', d.tenant_id, d.event_type
        INTO queue, outcome, tenant_id, event_type
        FROM onceward.dead_letters d
        WHERE d.id = letter;
        v_known := v_known || queue;
        RETURN NEXT;
    END LOOP;
    PERFORM onceward.wake(v_lanes) WHERE v_lanes IS NOT NULL;

    -- Those that are dead letters.
    FOR queue, outcome, letter, tenant_id, event_type IN
        SELECT DISTINCT ON (d.queue) d.queue, 'dead', d.id, d.tenant_id, d.event_type
        FROM onceward.dead_letters d
        WHERE d.event_id = p_event
          AND d.status <> 'requeued'
          AND (p_queue IS NULL OR d.queue = p_queue)
          AND d.queue <> ALL (v_known)
          AND onceward.sees(d.tenant_id)
        ORDER BY d.queue, d.id DESC
    LOOP
        v_known := v_known || queue;
        RETURN NEXT;
    END LOOP;

    -- Everything else was read: it was handled, or it is on its way over the bus. An id that contains its
    -- time is searched for only in the part of the log that was written around it.
    SELECT r.after_seq, r.upto_seq
    INTO v_after, v_upto
    FROM onceward.seq_range(
        coalesce(onceward.uuid_time(p_event) - interval '10 minutes', '-infinity'),
        coalesce(onceward.uuid_time(p_event) + interval '1 hour', 'infinity')) r;
    FOR v_written IN
        SELECT m.*
        FROM (SELECT 0 AS id UNION ALL SELECT l.id FROM onceward.lane l) a
        CROSS JOIN LATERAL (
            SELECT w.*
            FROM onceward.message_log w
            WHERE w.lane_id = a.id AND w.seq > v_after AND w.seq <= v_upto AND w.id = p_event
            OFFSET 0) m
        WHERE onceward.sees(m.tenant_id)
        ORDER BY m.seq
    LOOP
        letter := NULL;
        tenant_id := v_written.tenant_id;
        event_type := v_written.event_type;
        FOR queue, outcome IN
            SELECT *
            FROM onceward.read_in(v_written, p_readers) r
            WHERE p_queue IS NULL OR r.queue = p_queue
        LOOP
            CONTINUE WHEN queue = ANY (v_known);
            -- It has not been relayed, so it cannot arrive.
            CONTINUE WHEN outcome = 'arrival' AND '@outbox' = ANY (v_known);
            IF outcome = 'arrival' THEN
                INSERT INTO onceward.cancelled_arrival (event_id, queue, tenant_id, actor, why)
                VALUES (p_event, queue, v_written.tenant_id, p_actor, p_why)
                ON CONFLICT DO NOTHING;
                outcome := CASE WHEN FOUND THEN 'arrival' ELSE 'dead' END;
            END IF;
            v_known := v_known || queue;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END
$$;
