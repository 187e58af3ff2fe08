-- The narrow functions through which the engine crosses tenants. They run as the owner; the application role can call
-- them and cannot access the tables below them.
--
-- platform/db/src/lock_class.rs lists the classes of advisory locks.

-- The content that a key stands for: the same key may publish it again, and nothing else. As jsonb, so that spaces and the order of
-- names do not matter.
CREATE FUNCTION onceward.content_hash(p_event_type text, p_payload text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT pg_catalog.hashtextextended(
        p_event_type OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) p_payload::pg_catalog.jsonb::pg_catalog.text, 0)
$$;

-- Fails if one of these keys was used before for other content. This distinguishes a repeated publish from two messages with one key,
-- of which the second would be lost silently.
CREATE FUNCTION onceward.refuse_other_content(p_digests uuid[], p_contents bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM unnest(p_digests, p_contents) AS given(digest, content)
        CROSS JOIN LATERAL (
            SELECT k.content FROM onceward.message_key k WHERE k.digest = given.digest
            UNION ALL
            SELECT k.content FROM onceward.lasting_key k
            WHERE k.digest = given.digest AND k.keep_until >= clock_timestamp()) AS known
        WHERE known.content <> given.content)
    THEN
        RAISE EXCEPTION 'this idempotency key was used before for another payload or event type' USING ERRCODE = 'OW005',
            HINT = 'Publish a different message under a key of its own; repeat a publish with the same payload.';
    END IF;
END
$$;

-- Stores keys that are remembered for longer than their partition is kept. Returns those that were not stored yet.
CREATE FUNCTION onceward.remember_keys(p_digests uuid[], p_contents bigint[], p_days int[]) RETURNS uuid[]
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH fresh AS (
        INSERT INTO onceward.lasting_key AS k (digest, content, keep_until)
        SELECT u.digest, u.content, clock_timestamp() + u.days * interval '1 day'
        FROM unnest(p_digests, p_contents, p_days) AS u(digest, content, days)
        WHERE u.days IS NOT NULL
        ORDER BY u.digest
        ON CONFLICT (digest) DO UPDATE SET content = EXCLUDED.content, keep_until = EXCLUDED.keep_until
        WHERE k.keep_until < clock_timestamp()
        RETURNING k.digest)
    SELECT coalesce(array_agg(f.digest), '{}') FROM fresh f
$$;

-- Fails if this transaction is marked as one that appends nothing: relays do not wait for it, so its messages would never be
-- relayed.
CREATE FUNCTION onceward.refuse_quiet() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM onceward.quiet_turn q WHERE q.xmax = pg_current_xact_id()::xid) THEN
        RAISE EXCEPTION 'this transaction read the outbox as a relay, so it cannot publish' USING ERRCODE = 'OW006',
            HINT = 'Publish in a transaction of its own.';
    END IF;
END
$$;

-- Appends messages. Locks come before sequence numbers, so the numbers of one key are in commit order; the
-- transaction's id comes before both, so that a reader's snapshot shows which numbers may still appear.
CREATE FUNCTION onceward.append(
    p_topology bigint, p_buckets int[], p_digests uuid[],
    p_id uuid[], p_digest uuid[], p_lane int[], p_copy smallint[], p_version smallint[], p_tenant text[], p_event_type text[],
    p_topic text[], p_ordering_key text[], p_idempotency_key text[], p_correlation_uuid uuid[], p_correlation text[], p_causation text[],
    p_aggregate_type text[], p_aggregate_id text[], p_headers text[], p_payload text[], p_occurred timestamptz[],
    p_delay_ms bigint[], p_key_days int[])
    RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch    int;
    v_before   xid8 := pg_current_xact_id_if_assigned();  -- NULL: it has written nothing and is not marked
    v_xid      xid8 := pg_current_xact_id();
    v_now      timestamptz := clock_timestamp();
    v_digests  uuid[];
    v_contents bigint[];
    v_days     int[];
    v_fresh    uuid[];
    v_longer   uuid[];
    v_rows     int;
BEGIN
    IF v_before IS NOT NULL THEN
        PERFORM onceward.refuse_quiet();
    END IF;
    SELECT epoch INTO v_epoch FROM onceward.log_state WHERE topology_version = p_topology;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the topology changed' USING ERRCODE = 'OW001';
    END IF;
    IF cardinality(p_buckets) > 0 THEN
        PERFORM pg_advisory_xact_lock(19011, b) FROM unnest(p_buckets) AS b;
    END IF;
    IF cardinality(p_digests) > 0 THEN
        -- One row per key, in the same order for every publisher, so that two publishers cannot deadlock.
        SELECT array_agg(k.digest), array_agg(k.content), array_agg(k.days)
        INTO v_digests, v_contents, v_days
        FROM (
            SELECT u.digest, onceward.content_hash(u.event_type, u.payload) AS content, u.days
            FROM unnest(p_digest, p_copy, p_event_type, p_payload, p_key_days) AS u(digest, copy, event_type, payload, days)
            WHERE u.digest IS NOT NULL AND u.copy = 0
            ORDER BY u.digest) k;
        -- Keys are usually new. ON CONFLICT would write another WAL record for each, so it is only the second attempt.
        BEGIN
            INSERT INTO onceward.message_key (digest, content, epoch)
            SELECT u.digest, u.content, v_epoch FROM unnest(v_digests, v_contents) AS u(digest, content);
            v_fresh := v_digests;
        EXCEPTION WHEN unique_violation THEN
            PERFORM onceward.refuse_other_content(v_digests, v_contents);
            WITH fresh AS (
                INSERT INTO onceward.message_key (digest, content, epoch)
                SELECT u.digest, u.content, v_epoch FROM unnest(v_digests, v_contents) AS u(digest, content)
                ON CONFLICT DO NOTHING RETURNING digest)
            SELECT coalesce(array_agg(digest), '{}') INTO v_fresh FROM fresh;
        END;
        -- Only types with such a setting are looked up among the keys that are remembered for longer.
        IF num_nonnulls(VARIADIC v_days) > 0 THEN
            PERFORM onceward.refuse_other_content(v_digests, v_contents);
            v_longer := onceward.remember_keys(v_digests, v_contents, v_days);
            SELECT coalesce(array_agg(u.digest), '{}') INTO v_fresh
            FROM unnest(v_digests, v_days) AS u(digest, days)
            WHERE u.digest = ANY (v_fresh) AND (u.days IS NULL OR u.digest = ANY (v_longer));
        END IF;
    END IF;
    INSERT INTO onceward.message_log (
        seq, xid, created_at, occurred_at, id, correlation_uuid, epoch, lane_id, copy, version, tenant_id, event_type, topic,
        ordering_key, idempotency_key, correlation_id, causation_id, aggregate_type, aggregate_id, headers, payload)
    SELECT nextval('onceward.message_seq'), v_xid, v_now, u.occurred, u.id, u.correlation_uuid, v_epoch,
           CASE WHEN u.delay_ms IS NULL OR u.lane < 0 THEN u.lane ELSE 0 END, u.copy, u.version, u.tenant,
           u.event_type, u.topic, u.ordering_key, u.idempotency_key, u.correlation, u.causation, u.aggregate_type,
           u.aggregate_id, u.headers::json, u.payload::json
    FROM unnest(p_id, p_digest, p_lane, p_copy, p_version, p_tenant, p_event_type, p_topic, p_ordering_key,
                p_idempotency_key, p_correlation_uuid, p_correlation, p_causation, p_aggregate_type, p_aggregate_id, p_headers,
                p_payload, p_occurred, p_delay_ms)
         AS u(id, digest, lane, copy, version, tenant, event_type, topic, ordering_key, idempotency_key,
              correlation_uuid, correlation, causation, aggregate_type, aggregate_id, headers, payload, occurred, delay_ms)
    WHERE u.digest IS NULL
       OR cardinality(v_fresh) = cardinality(p_digests)
       OR EXISTS (SELECT FROM unnest(v_fresh) AS f WHERE f = u.digest);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF num_nonnulls(VARIADIC p_delay_ms) > 0 THEN
        INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, due_at, blocks, tenant_id, ordering_key, created_at, message)
        SELECT u.lane, l.queue_id, 0, 'delayed', v_now + u.delay_ms * interval '1 ms', false, l.tenant_id, u.ordering_key, v_now,
               jsonb_build_object('id', u.id, 'event_type', u.event_type, 'version', u.version, 'topic', u.topic,
                   'idempotency_key', u.idempotency_key, 'correlation_id', coalesce(u.correlation, u.correlation_uuid::text), 'causation_id', u.causation,
                   'headers', u.headers::jsonb, 'payload', u.payload::jsonb, 'occurred_at', u.occurred)
        FROM unnest(p_id, p_digest, p_lane, p_version, p_event_type, p_topic, p_ordering_key, p_idempotency_key, p_correlation_uuid,
                    p_correlation, p_causation, p_headers, p_payload, p_occurred, p_delay_ms)
             WITH ORDINALITY
             AS u(id, digest, lane, version, event_type, topic, ordering_key, idempotency_key, correlation_uuid, correlation,
                  causation, headers, payload, occurred, delay_ms, nth)
        JOIN onceward.lane l ON l.id = u.lane
        WHERE u.delay_ms IS NOT NULL
          AND (u.digest IS NULL OR EXISTS (SELECT FROM unnest(v_fresh) AS f WHERE f = u.digest))
        ORDER BY u.nth;
    END IF;
    RETURN v_rows;
END
$$;

-- The same for one message to at most one queue, which is what most transactions publish: no arrays, no joins, and as
-- few statements as possible. Every name is qualified, so it needs no search_path of its own.
CREATE FUNCTION onceward.append_one(
    p_topology bigint, p_bucket int, p_digest uuid, p_id uuid, p_lane int, p_version smallint, p_tenant text,
    p_event_type text, p_topic text, p_ordering_key text, p_idempotency_key text, p_correlation_uuid uuid,
    p_correlation text, p_causation text, p_aggregate_type text, p_aggregate_id text, p_headers text, p_payload text,
    p_occurred timestamptz, p_key_days int)
    RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER
    AS $$
DECLARE
    v_before  pg_catalog.xid8 := pg_catalog.pg_current_xact_id_if_assigned();
    v_xid     pg_catalog.xid8 := pg_catalog.pg_current_xact_id();
    v_content bigint;
BEGIN
    -- The check of onceward.refuse_quiet, without a call. It is skipped if this is the transaction's first write.
    IF v_before IS NOT NULL THEN
        IF EXISTS (SELECT FROM onceward.quiet_turn q WHERE q.xmax OPERATOR(pg_catalog.=) v_xid::pg_catalog.xid) THEN
            PERFORM onceward.refuse_quiet();
        END IF;
    END IF;
    IF p_bucket IS NOT NULL THEN
        PERFORM pg_catalog.pg_advisory_xact_lock(19011, p_bucket);
    END IF;
    IF p_digest IS NOT NULL THEN
        v_content := onceward.content_hash(p_event_type, p_payload);
        BEGIN
            INSERT INTO onceward.message_key (digest, content, epoch) SELECT p_digest, v_content, s.epoch FROM onceward.log_state s;
        EXCEPTION WHEN unique_violation THEN
            PERFORM onceward.refuse_other_content(ARRAY[p_digest], ARRAY[v_content]);
            RETURN 0;
        END;
        IF p_key_days IS NOT NULL THEN
            PERFORM onceward.refuse_other_content(ARRAY[p_digest], ARRAY[v_content]);
            IF pg_catalog.cardinality(onceward.remember_keys(ARRAY[p_digest], ARRAY[v_content], ARRAY[p_key_days]))
                OPERATOR(pg_catalog.=) 0
            THEN
                RETURN 0;
            END IF;
        END IF;
    END IF;
    INSERT INTO onceward.message_log (
        seq, xid, created_at, occurred_at, id, correlation_uuid, epoch, lane_id, copy, version, tenant_id, event_type, topic,
        ordering_key, idempotency_key, correlation_id, causation_id, aggregate_type, aggregate_id, headers, payload)
    SELECT pg_catalog.nextval('onceward.message_seq'::pg_catalog.regclass), v_xid, pg_catalog.clock_timestamp(), p_occurred,
        p_id, p_correlation_uuid, s.epoch, p_lane, 0, p_version, p_tenant, p_event_type, p_topic, p_ordering_key,
        p_idempotency_key, p_correlation, p_causation, p_aggregate_type, p_aggregate_id, p_headers::pg_catalog.json,
        p_payload::pg_catalog.json
    FROM onceward.log_state s WHERE s.topology_version OPERATOR(pg_catalog.=) p_topology;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the topology changed' USING ERRCODE = 'OW001';
    END IF;
    RETURN 1;
END
$$;

-- Returns the lane's number; creates the lane on first use.
CREATE FUNCTION onceward.lane_of(p_queue int, p_tenant text, p_priority smallint, p_shard smallint) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id int;
BEGIN
    LOOP
        SELECT id INTO v_id FROM onceward.lane
        WHERE queue_id = p_queue AND tenant_id = p_tenant AND priority = p_priority AND shard = p_shard;
        IF FOUND THEN RETURN v_id; END IF;
        INSERT INTO onceward.lane (queue_id, tenant_id, priority, shard) VALUES (p_queue, p_tenant, p_priority, p_shard)
        ON CONFLICT DO NOTHING RETURNING id INTO v_id;
        IF FOUND THEN
            INSERT INTO onceward.tenant (id) VALUES (p_tenant) ON CONFLICT DO NOTHING;
            RETURN v_id;
        END IF;
    END LOOP;
END
$$;

-- Returns the lane of unrouted messages of this exchange and event type with version; creates it on first use.
CREATE FUNCTION onceward.unrouted_lane(p_exchange text, p_event_type text) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id int;
BEGIN
    SELECT id INTO v_id FROM onceward.unrouted_lane WHERE exchange = p_exchange AND event_type = p_event_type;
    IF NOT FOUND AND (SELECT count(*) < 1000 FROM onceward.unrouted_lane) THEN
        INSERT INTO onceward.unrouted_lane (exchange, event_type) VALUES (p_exchange, p_event_type)
        ON CONFLICT (exchange, event_type) DO UPDATE SET event_type = EXCLUDED.event_type
        RETURNING id INTO v_id;
    END IF;
    RETURN coalesce(v_id, -1);
END
$$;

-- Defers messages. Their ids are in the order of the rows: followers of a key are released in that order.
CREATE FUNCTION onceward.defer(p_rows jsonb) RETURNS TABLE (lane_id int, seq bigint, id bigint)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, due_at, blocks, attempts, lease, worker, first_error,
        last_error, first_failed_at, unknown_since, tenant_id, ordering_key, created_at, message)
    SELECT r.lane_id, l.queue_id, r.seq, r.state, CASE WHEN r.due_in_ms IS NULL THEN NULL ELSE clock_timestamp() + r.due_in_ms * interval '1 ms' END,
        r.blocks, r.attempts, r.lease, r.worker, r.first_error, r.last_error, r.first_failed_at,
        CASE WHEN r.state = 'unknown' THEN clock_timestamp() END, l.tenant_id, r.ordering_key,
        r.created_at, r.message
    FROM ROWS FROM (jsonb_to_recordset(p_rows) AS (lane_id int, seq bigint, state text, due_in_ms bigint, blocks boolean,
            attempts int, lease bigint, worker text, first_error text, last_error text, first_failed_at timestamptz,
            ordering_key text, created_at timestamptz, message jsonb)) WITH ORDINALITY
        AS r(lane_id, seq, state, due_in_ms, blocks, attempts, lease, worker, first_error, last_error, first_failed_at,
            ordering_key, created_at, message, nth)
    JOIN onceward.lane l ON l.id = r.lane_id
    ORDER BY r.nth                               -- a hash join would change their order
    RETURNING lane_id, seq, id
$$;

CREATE FUNCTION onceward.bury(p_rows jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.dead_letters (event_id, tenant_id, queue, consumer, dead_letter_exchange, event_type, version,
        ordering_key, correlation_id, reason, attempts, first_error, last_error, first_failed_at, message)
    SELECT r.event_id, r.tenant_id, r.queue, r.consumer, r.dead_letter_exchange, r.event_type, r.version, r.ordering_key,
        r.correlation_id, r.reason, r.attempts, r.first_error, r.last_error, r.first_failed_at, r.message
    FROM jsonb_to_recordset(p_rows) AS r(event_id uuid, tenant_id text, queue text, consumer text, dead_letter_exchange text,
        event_type text, version int, ordering_key text, correlation_id text, reason text, attempts int, first_error text,
        last_error text, first_failed_at timestamptz, message jsonb)
$$;

-- The lanes of a queue that have work now.
CREATE FUNCTION onceward.lanes_with_work(p_queue int) RETURNS TABLE (lane_id int, tenant_id text, priority smallint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
BEGIN
    RETURN QUERY
    SELECT l.id, l.tenant_id, l.priority
    FROM onceward.lane l
    LEFT JOIN LATERAL (
        SELECT t.last_seq, t.open_xids FROM onceward.lane_turn t WHERE t.lane_id = l.id ORDER BY t.turn DESC LIMIT 1) c ON true
    WHERE l.queue_id = p_queue
      AND (EXISTS (SELECT FROM onceward.message_log m WHERE m.lane_id = l.id AND m.seq > coalesce(c.last_seq, 0))
           OR EXISTS (SELECT FROM unnest(c.open_xids) AS x WHERE pg_visible_in_snapshot(x, pg_current_snapshot()))
           OR EXISTS (SELECT FROM onceward.deferred d WHERE d.lane_id = l.id AND d.due_at <= clock_timestamp()));
END
$$;

-- Milliseconds until the next deferred message of this queue is due; NULL if none is.
CREATE FUNCTION onceward.next_due_ms(p_queue int) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT greatest(0, ceil(extract(epoch FROM min(d.due_at) - clock_timestamp()) * 1000))::bigint
    FROM onceward.deferred d WHERE d.queue_id = p_queue AND d.due_at IS NOT NULL
$$;

-- Marks this transaction as one that will append nothing, until it ends. FALSE: all slots are in use, so it is not marked, and readers
-- wait for it as for any transaction. Sessions start at different slots, so that they seldom collide. It runs in every turn of a relay,
-- as the owner and with the search_path of its caller, onceward.places.
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

-- The positions of lanes, and the messages that are handled before new ones. First comes a row per lane, without a seq (`about`:
-- the lane's position, the snapshot it was read with, and an id taken right after it); then deferred messages that are due, then
-- late ones. It reads with the snapshot of the calling statement, which then reads the new messages; it is planned with that statement.
--
-- The snapshot does not list open transactions from its xmax on. An id taken after it bounds them from above, and the sooner it is
-- taken, the fewer are between the two. An open transaction is searched for late messages when it has ended. A turn that is `p_quiet`
-- will append none and is marked as such, so other readers need not search for its messages: it is `quiet`. A mark of a transaction that
-- has ended names no open one, because no id is assigned twice while a row still contains it. Only a transaction without an id is
-- marked, because it has appended nothing before; and once it is marked, it cannot append (onceward.refuse_quiet).
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
        SELECT l.id AS lane_id, n.tenant_id, coalesce(c.turn, 0) AS turn, coalesce(c.last_seq, 0) AS last_seq,
               coalesce(c.open_xids, '{}') AS open_xids, coalesce(c.open_floors, '{}') AS open_floors,
               coalesce(c.careful_until, 0) AS careful_until,
               EXISTS (SELECT FROM onceward.deferred d WHERE d.lane_id = l.id AND d.ordering_key IS NOT NULL AND d.blocks) AS has_blocked,
               EXISTS (SELECT FROM onceward.cancelled k WHERE k.lane_id = l.id) AS has_cancelled
        FROM unnest(p_lanes) AS l(id)
        JOIN onceward.lane n ON n.id = l.id
        LEFT JOIN LATERAL (SELECT t.* FROM onceward.lane_turn t WHERE t.lane_id = l.id ORDER BY t.turn DESC LIMIT 1) c ON true)
    SELECT p.lane_id,
           json_build_object('turn', p.turn, 'last_seq', p.last_seq, 'open_xids', p.open_xids::text, 'open_floors', p.open_floors,
               'careful_until', p.careful_until, 'starts', coalesce(s.starts, 0), 'snapshot', pg_current_snapshot()::text,
               'xid', pg_current_xact_id()::text,
               -- Both are evaluated once for all lanes, because they do not depend on them.
               'quiet', CASE WHEN (SELECT CASE WHEN NOT p_quiet THEN NULL WHEN v_wrote_nothing THEN onceward.mark_quiet() ELSE false END) IS NOT NULL THEN
                   ARRAY(SELECT o.xid FROM (
                       SELECT x::text::bigint FROM pg_snapshot_xip(pg_current_snapshot()) AS x
                       UNION ALL
                       SELECT generate_series(pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_xact_id()::text::bigint - 1)) AS o(xid)
                   WHERE o.xid & 4294967295 = ANY (ARRAY(SELECT q.xmax::text::bigint FROM onceward.quiet_turn q))) END),
           NULL::bigint, NULL::timestamptz, NULL::timestamptz, NULL::uuid, NULL::smallint, NULL, NULL, NULL,
           NULL, NULL::uuid, NULL, NULL, NULL::json, NULL::json, p.last_seq, p.tenant_id, p.has_blocked, p.has_cancelled
    FROM place p LEFT JOIN onceward.turn_start s ON s.lane_id = p.lane_id AND s.turn = p.turn + 1
    UNION ALL
    SELECT p.lane_id,
           json_build_object(
               'aside', json_build_object('id', d.id, 'state', d.state, 'attempts', d.attempts, 'lease', d.lease, 'lost', d.lost, 'starts_alone', d.starts_alone,
                   'first_error', d.first_error, 'first_failed_at', d.first_failed_at, 'unknown_since', d.unknown_since),
               'blocked', CASE WHEN d.blocks OR d.ordering_key IS NULL THEN false ELSE EXISTS (
                   SELECT FROM onceward.deferred e WHERE e.lane_id = p.lane_id AND e.ordering_key = d.ordering_key AND e.blocks) END),
           d.seq, d.created_at, (d.message->>'occurred_at')::timestamptz, (d.message->>'id')::uuid, (d.message->>'version')::smallint,
           d.message->>'event_type', d.message->>'topic', d.ordering_key, d.message->>'idempotency_key',
           NULL, d.message->>'correlation_id', d.message->>'causation_id', (d.message->'headers')::json, (d.message->'payload')::json,
           NULL, NULL, NULL, NULL
    FROM place p
    CROSS JOIN LATERAL (
        SELECT * FROM onceward.deferred d WHERE d.lane_id = p.lane_id AND d.due_at <= clock_timestamp()
        ORDER BY d.due_at, d.id LIMIT p_limit) d
    UNION ALL
    SELECT p.lane_id,
           json_build_object('late', true, 'tenant_id', m.tenant_id, 'cancelled', p.has_cancelled AND EXISTS (
               SELECT FROM onceward.cancelled k WHERE k.lane_id = p.lane_id AND k.seq = m.seq), 'blocked', m.ordering_key IS NOT NULL AND p.has_blocked AND EXISTS (
               SELECT FROM onceward.deferred d WHERE d.lane_id = p.lane_id AND d.ordering_key = m.ordering_key AND d.blocks)),
           m.seq, m.created_at, m.occurred_at, m.id, nullif(m.version, 1::smallint), m.event_type, m.topic, m.ordering_key, m.idempotency_key,
           m.correlation_uuid, m.correlation_id, m.causation_id, m.headers, m.payload, NULL, NULL, NULL, NULL
    FROM place p
    CROSS JOIN LATERAL (
        SELECT array_agg(o.xid) AS xids, min(o.floor) AS floor FROM unnest(p.open_xids, p.open_floors) AS o(xid, floor)
        WHERE pg_visible_in_snapshot(o.xid, pg_current_snapshot())) ended
    CROSS JOIN LATERAL (
        SELECT * FROM onceward.message_log m
        WHERE m.lane_id = p.lane_id AND m.seq > ended.floor AND m.seq <= p.last_seq AND m.xid = ANY (ended.xids)
          AND m.seq > (SELECT o.floor FROM unnest(p.open_xids, p.open_floors) AS o(xid, floor) WHERE o.xid = m.xid)
        ORDER BY m.seq LIMIT p_limit) m;
END
$$;

-- Takes turns in those of the given lanes that no other worker has locked: returns the rows of `places`, and then the new messages.
-- Every column that is not NULL has a cost, and nearly all messages are new, of the lane's own tenant, in version 1 and not blocked.
-- Whatever differs from that is in `about`, and version 1 is NULL. Locking and reading are two statements, because reading needs a
-- snapshot taken after the lock.
CREATE FUNCTION onceward.take_turns(p_lanes int[], p_limit int)
    RETURNS TABLE (
        lane_id int, about json, seq bigint, created_at timestamptz, occurred_at timestamptz, id uuid,
        version smallint, event_type text, topic text, ordering_key text, idempotency_key text,
        correlation_uuid uuid, correlation_id text, causation_id text, headers json, payload json)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_locked int[];
BEGIN
    v_locked := ARRAY(SELECT l FROM unnest(p_lanes) AS l WHERE pg_try_advisory_xact_lock(19012, l));
    RETURN QUERY
    WITH place AS MATERIALIZED (SELECT * FROM onceward.places(v_locked, p_limit, false))
    SELECT p.lane_id, p.about, p.seq, p.created_at, p.occurred_at, p.id, p.version, p.event_type, p.topic, p.ordering_key,
           p.idempotency_key, p.correlation_uuid, p.correlation_id, p.causation_id, p.headers, p.payload
    FROM place p
    UNION ALL
    SELECT p.lane_id,
           CASE WHEN p.has_cancelled AND EXISTS (
               SELECT FROM onceward.cancelled k WHERE k.lane_id = p.lane_id AND k.seq = m.seq)
           THEN json_build_object('cancelled', true)
           WHEN m.ordering_key IS NOT NULL AND p.has_blocked AND EXISTS (
               SELECT FROM onceward.deferred d WHERE d.lane_id = p.lane_id AND d.ordering_key = m.ordering_key AND d.blocks)
           THEN json_build_object('tenant_id', m.tenant_id, 'blocked', true)
           WHEN m.tenant_id <> p.tenant_id THEN json_build_object('tenant_id', m.tenant_id) END,
           m.seq, m.created_at, m.occurred_at, m.id, nullif(m.version, 1::smallint), m.event_type, m.topic, m.ordering_key, m.idempotency_key,
           m.correlation_uuid, m.correlation_id, m.causation_id, m.headers, m.payload
    FROM place p
    CROSS JOIN LATERAL (
        SELECT * FROM onceward.message_log m WHERE m.lane_id = p.lane_id AND m.seq > p.last_seq ORDER BY m.seq LIMIT p_limit) m
    WHERE p.seq IS NULL;
END
$$;

-- Writes the next turn of each lane. The primary key refuses a second writer of the same turn. Older turns are deleted,
-- so a writer that is further behind is detected by finding a later turn and none before its own. Rows are looked up by LATERAL ... OFFSET 0,
-- which cannot become a join: these tables are small and full of dead rows, and a join would read all of them.
CREATE FUNCTION onceward.advance(p_lanes int[], p_turns bigint[], p_last_seqs bigint[], p_open_xids text[], p_open_floors text[], p_careful_until bigint[])
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_before int;
BEGIN
    INSERT INTO onceward.lane_turn (lane_id, turn, last_seq, open_xids, open_floors, careful_until)
    SELECT a.lane, a.turn, a.last_seq, a.xids::xid8[], a.floors::bigint[], a.careful
    FROM unnest(p_lanes, p_turns, p_last_seqs, p_open_xids, p_open_floors, p_careful_until)
         AS a(lane, turn, last_seq, xids, floors, careful);
    DELETE FROM onceward.lane_turn WHERE ctid = ANY (ARRAY(
        SELECT t.ctid FROM unnest(p_lanes, p_turns) AS a(lane, turn)
        CROSS JOIN LATERAL (SELECT b.ctid FROM onceward.lane_turn b WHERE b.lane_id = a.lane AND b.turn = a.turn - 1 OFFSET 0) t));
    GET DIAGNOSTICS v_before = ROW_COUNT;
    IF v_before < cardinality(p_lanes) AND EXISTS (
        SELECT FROM unnest(p_lanes, p_turns) AS a(lane, turn)
        CROSS JOIN LATERAL (SELECT FROM onceward.lane_turn t WHERE t.lane_id = a.lane AND t.turn > a.turn OFFSET 0) later)
    THEN
        RAISE EXCEPTION 'other workers took later turns in this lane' USING ERRCODE = 'unique_violation';
    END IF;
    DELETE FROM onceward.turn_start WHERE ctid = ANY (ARRAY(
        SELECT t.ctid FROM unnest(p_lanes, p_turns) AS a(lane, turn)
        CROSS JOIN LATERAL (SELECT b.ctid FROM onceward.turn_start b WHERE b.lane_id = a.lane AND b.turn = a.turn OFFSET 0) t));
END
$$;

-- Forgets cancelled messages that this turn passed.
CREATE FUNCTION onceward.pass_cancelled(p_lanes int[], p_seqs bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    DELETE FROM onceward.cancelled k
    USING unnest(p_lanes, p_seqs) AS a(lane, seq)
    WHERE k.lane_id = a.lane AND k.seq = a.seq
$$;

-- Records, outside the turn's own transaction, that the turn was started.
CREATE FUNCTION onceward.note_start(p_lanes int[], p_turns bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.turn_start AS s (lane_id, turn, starts)
    SELECT a.lane, a.turn, 1 FROM unnest(p_lanes, p_turns) AS a(lane, turn)
    ON CONFLICT (lane_id, turn) DO UPDATE SET starts = s.starts + 1
$$;

-- Settles deferred messages: their rows are deleted, and at most p_release followers of each key become due, in their order. A row
-- that does not exist any more was settled by another worker, so the transaction must fail.
CREATE FUNCTION onceward.settle_deferred(p_ids bigint[], p_release int) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();    -- one time for all, so that the ids determine the order
    v_gone  int;
    v_lanes int[];
    v_keys  text[];
BEGIN
    WITH gone AS (DELETE FROM onceward.deferred d WHERE d.id = ANY (p_ids) RETURNING d.lane_id, d.ordering_key)
    SELECT count(*), array_agg(g.lane_id) FILTER (WHERE g.ordering_key IS NOT NULL),
           array_agg(g.ordering_key) FILTER (WHERE g.ordering_key IS NOT NULL)
    INTO v_gone, v_lanes, v_keys FROM gone g;
    IF v_gone < cardinality(p_ids) THEN
        RAISE EXCEPTION 'another worker has settled this message' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE onceward.deferred f SET due_at = v_now
    FROM (SELECT DISTINCT k.lane_id, k.ordering_key FROM unnest(v_lanes, v_keys) AS k(lane_id, ordering_key)) k
    CROSS JOIN LATERAL (
        SELECT n.id FROM onceward.deferred n
        WHERE n.lane_id = k.lane_id AND n.ordering_key = k.ordering_key AND n.blocks
        ORDER BY n.id LIMIT p_release) n
    WHERE f.id = n.id AND f.state = 'parked' AND f.due_at IS NULL
      AND NOT EXISTS (SELECT FROM onceward.deferred h
                      WHERE h.lane_id = f.lane_id AND h.ordering_key = f.ordering_key AND h.blocks AND h.id < f.id
                        AND h.state <> 'parked');
END
$$;

-- Defers a deferred message again: after a failed attempt, for a newer worker, or behind its predecessor.
CREATE FUNCTION onceward.redefer(p_rows jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.deferred d
    SET state = r.state, blocks = r.blocks, attempts = r.attempts, lease = r.lease, worker = r.worker, lost = coalesce(r.lost, 0),
        starts_alone = CASE WHEN r.state = 'leased' THEN d.starts_alone ELSE 0 END,
        due_at = CASE WHEN r.due_in_ms IS NULL THEN NULL ELSE clock_timestamp() + r.due_in_ms * interval '1 ms' END,
        first_error = coalesce(d.first_error, r.last_error), last_error = coalesce(r.last_error, d.last_error),
        first_failed_at = CASE WHEN r.last_error IS NULL THEN d.first_failed_at ELSE coalesce(d.first_failed_at, clock_timestamp()) END,
        unknown_since = CASE WHEN r.state = 'unknown' THEN coalesce(d.unknown_since, clock_timestamp())
                             -- These states do not tell whether the worker knows the type.
                             WHEN r.state IN ('leased', 'parked') THEN d.unknown_since END
    FROM jsonb_to_recordset(p_rows) AS r(id bigint, state text, due_in_ms bigint, blocks boolean, attempts int, lease bigint,
        lost int, worker text, last_error text)
    WHERE d.id = r.id;
    -- Followers that were released with it wait again.
    UPDATE onceward.deferred f SET due_at = NULL
    FROM jsonb_to_recordset(p_rows) AS r(id bigint, state text)
    JOIN onceward.deferred d ON d.id = r.id
    WHERE r.state <> 'parked' AND d.ordering_key IS NOT NULL AND d.blocks AND f.lane_id = d.lane_id
      AND f.ordering_key = d.ordering_key AND f.blocks AND f.id > d.id AND f.state = 'parked' AND f.due_at IS NOT NULL;
END
$$;

-- Ends a lease if this worker still holds it. FALSE: another worker has leased the message meanwhile. Turns park followers of the
-- key, so the lane is locked in shared mode while they are searched.
CREATE FUNCTION onceward.end_lease(p_id bigint, p_lease bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_lane int;
    v_key  text;
BEGIN
    SELECT lane_id, ordering_key INTO v_lane, v_key FROM onceward.deferred WHERE id = p_id AND lease = p_lease AND state = 'leased';
    IF NOT FOUND THEN RETURN false; END IF;
    IF v_key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(19012, v_lane);
    END IF;
    PERFORM FROM onceward.deferred WHERE id = p_id AND lease = p_lease AND state = 'leased' FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM onceward.settle_deferred(ARRAY[p_id], 1);
    RETURN true;
END
$$;

-- Records, in a way that a crash of the worker cannot undo, that a leased message is now handled alone. FALSE: another worker holds
-- the lease.
CREATE FUNCTION onceward.start_alone(p_id bigint, p_lease bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.deferred SET starts_alone = starts_alone + 1 WHERE id = p_id AND lease = p_lease AND state = 'leased';
    RETURN FOUND;
END
$$;

-- Returns a leased message until a later time, if this worker still holds the lease.
CREATE FUNCTION onceward.return_lease(p_row jsonb, p_lease bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM FROM onceward.deferred WHERE id = (p_row->>'id')::bigint AND lease = p_lease AND state = 'leased' FOR UPDATE;
    IF NOT FOUND THEN RETURN false; END IF;
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

-- Makes all messages of unknown types due: a worker that may know them has started.
CREATE FUNCTION onceward.recheck_waiting(p_queue int) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE onceward.deferred SET due_at = clock_timestamp() WHERE queue_id = p_queue AND state = 'unknown' AND due_at IS NOT NULL
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA onceward FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA onceward TO onceward_app;
