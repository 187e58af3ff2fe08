-- Append: publishers write messages to the lanes of the log.

-- The content that a key stands for: the same key may publish it again, and nothing else. As jsonb, so that
-- spaces and the order of names do not matter.
CREATE FUNCTION onceward.content_hash(p_event_type text, p_payload text) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT pg_catalog.hashtextextended(
        p_event_type OPERATOR(pg_catalog.||) ' '
            OPERATOR(pg_catalog.||) p_payload::pg_catalog.jsonb::pg_catalog.text,
        0)
$$;

-- Fails if one of these keys was used before for other content. This distinguishes a repeated publish from
-- two messages with one key, of which the second would be lost silently.
CREATE FUNCTION onceward.refuse_other_content(p_digests uuid[], p_contents bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (
        SELECT
        FROM unnest(p_digests, p_contents) AS given(digest, content)
        CROSS JOIN LATERAL (
            SELECT k.content
            FROM onceward.message_key k
            WHERE k.digest = given.digest
            UNION ALL
            SELECT k.content
            FROM onceward.lasting_key k
            WHERE k.digest = given.digest AND k.keep_until >= clock_timestamp()) AS known
        WHERE known.content <> given.content)
    THEN
        RAISE EXCEPTION 'this idempotency key was used before for another payload or event type'
            USING ERRCODE = 'OW005',
            HINT = 'Publish a different message under a key of its own; '
                'repeat a publish with the same payload.';
    END IF;
END
$$;

-- Stores keys that are remembered for longer than their partition is kept. Returns those that were not stored
-- yet.
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

-- Fails if this transaction is marked as one that appends nothing: relays do not wait for it, so its messages
-- would never be relayed.
CREATE FUNCTION onceward.refuse_quiet() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM onceward.quiet_turn q WHERE q.xmax = pg_current_xact_id()::xid) THEN
        RAISE EXCEPTION 'this transaction read the outbox as a relay, so it cannot publish'
            USING ERRCODE = 'OW006',
            HINT = 'Publish in a transaction of its own.';
    END IF;
END
$$;

-- Appends messages. Returns the number of rows, which is 0 if all were published before. Locks come before
-- sequence numbers, so the numbers of one key are in commit order; the transaction's id comes before both, so
-- that a reader's snapshot shows which numbers may still appear.
CREATE FUNCTION onceward.append(
    p_topology bigint, p_buckets int[], p_digests uuid[],
    p_id uuid[], p_digest uuid[], p_lane int[], p_copy smallint[], p_version smallint[],
    p_tenant text[], p_event_type text[], p_topic text[], p_ordering_key text[], p_idempotency_key text[],
    p_correlation_uuid uuid[], p_correlation text[], p_causation text[],
    p_aggregate_type text[], p_aggregate_id text[], p_headers text[], p_payload text[],
    p_occurred timestamptz[], p_delay_ms bigint[], p_key_days int[])
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
    SELECT epoch INTO v_epoch
    FROM onceward.log_state
    WHERE topology_version = p_topology;
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
            FROM unnest(p_digest, p_copy, p_event_type, p_payload, p_key_days)
                AS u(digest, copy, event_type, payload, days)
            WHERE u.digest IS NOT NULL AND u.copy = 0
            ORDER BY u.digest) k;
        -- Keys are usually new. ON CONFLICT would write another WAL record for each, so it is only the second
        -- attempt.
        BEGIN
            INSERT INTO onceward.message_key (digest, content, epoch)
            SELECT u.digest, u.content, v_epoch
            FROM unnest(v_digests, v_contents) AS u(digest, content);
            v_fresh := v_digests;
        EXCEPTION WHEN unique_violation THEN
            PERFORM onceward.refuse_other_content(v_digests, v_contents);
            WITH fresh AS (
                INSERT INTO onceward.message_key (digest, content, epoch)
                SELECT u.digest, u.content, v_epoch
                FROM unnest(v_digests, v_contents) AS u(digest, content)
                ON CONFLICT DO NOTHING
                RETURNING digest)
            SELECT coalesce(array_agg(digest), '{}') INTO v_fresh
            FROM fresh;
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
        seq, xid, created_at, occurred_at, id, correlation_uuid, epoch,
        lane_id, copy, version, tenant_id,
        event_type, topic, ordering_key, idempotency_key, correlation_id, causation_id,
        aggregate_type, aggregate_id, headers, payload)
    SELECT nextval('onceward.message_seq'), v_xid, v_now, u.occurred, u.id, u.correlation_uuid, v_epoch,
           CASE WHEN u.delay_ms IS NULL OR u.lane < 0 THEN u.lane ELSE 0 END, u.copy, u.version, u.tenant,
           u.event_type, u.topic, u.ordering_key, u.idempotency_key, u.correlation, u.causation,
           u.aggregate_type, u.aggregate_id, u.headers::json, u.payload::json
    FROM unnest(p_id, p_digest, p_lane, p_copy, p_version, p_tenant, p_event_type, p_topic, p_ordering_key,
                p_idempotency_key, p_correlation_uuid, p_correlation, p_causation, p_aggregate_type,
                p_aggregate_id, p_headers, p_payload, p_occurred, p_delay_ms)
        AS u(id, digest, lane, copy, version, tenant, event_type, topic, ordering_key,
             idempotency_key, correlation_uuid, correlation, causation, aggregate_type, aggregate_id,
             headers, payload, occurred, delay_ms)
    WHERE u.digest IS NULL
       OR cardinality(v_fresh) = cardinality(p_digests)
       OR EXISTS (SELECT FROM unnest(v_fresh) AS f WHERE f = u.digest);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF num_nonnulls(VARIADIC p_delay_ms) > 0 THEN
        INSERT INTO onceward.deferred (
            lane_id, queue_id, seq, state, due_at, blocks, tenant_id, ordering_key, created_at, message)
        SELECT u.lane, l.queue_id, 0, 'delayed', v_now + u.delay_ms * interval '1 ms', false, l.tenant_id,
               u.ordering_key, v_now,
               jsonb_build_object(
                   'id', u.id,
                   'event_type', u.event_type,
                   'version', u.version,
                   'topic', u.topic,
                   'idempotency_key', u.idempotency_key,
                   'correlation_id', coalesce(u.correlation, u.correlation_uuid::text),
                   'causation_id', u.causation,
                   'headers', u.headers::jsonb,
                   'payload', u.payload::jsonb,
                   'occurred_at', u.occurred)
        FROM unnest(p_id, p_digest, p_lane, p_version, p_event_type, p_topic, p_ordering_key,
                    p_idempotency_key, p_correlation_uuid, p_correlation, p_causation, p_headers, p_payload,
                    p_occurred, p_delay_ms)
            WITH ORDINALITY
            AS u(id, digest, lane, version, event_type, topic, ordering_key,
                 idempotency_key, correlation_uuid, correlation, causation, headers, payload,
                 occurred, delay_ms, nth)
        JOIN onceward.lane l ON l.id = u.lane
        WHERE u.delay_ms IS NOT NULL
          AND (u.digest IS NULL OR EXISTS (SELECT FROM unnest(v_fresh) AS f WHERE f = u.digest))
        ORDER BY u.nth;
    END IF;
    RETURN v_rows;
END
$$;

-- The same for one message to at most one queue, which is what most transactions publish: no arrays, no
-- joins, and as few statements as possible. Every name is qualified, so it needs no search_path of its own.
CREATE FUNCTION onceward.append_one(
    p_topology bigint, p_bucket int, p_digest uuid,
    p_id uuid, p_lane int, p_version smallint,
    p_tenant text, p_event_type text, p_topic text, p_ordering_key text, p_idempotency_key text,
    p_correlation_uuid uuid, p_correlation text, p_causation text,
    p_aggregate_type text, p_aggregate_id text, p_headers text, p_payload text,
    p_occurred timestamptz, p_key_days int)
    RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER
    AS $$
DECLARE
    v_before  pg_catalog.xid8 := pg_catalog.pg_current_xact_id_if_assigned();
    v_xid     pg_catalog.xid8 := pg_catalog.pg_current_xact_id();
    v_content bigint;
BEGIN
    -- The check of onceward.refuse_quiet, without a call. It is skipped if this is the transaction's first
    -- write.
    IF v_before IS NOT NULL THEN
        IF EXISTS (
            SELECT
            FROM onceward.quiet_turn q
            WHERE q.xmax OPERATOR(pg_catalog.=) v_xid::pg_catalog.xid)
        THEN
            PERFORM onceward.refuse_quiet();
        END IF;
    END IF;
    IF p_bucket IS NOT NULL THEN
        PERFORM pg_catalog.pg_advisory_xact_lock(19011, p_bucket);
    END IF;
    IF p_digest IS NOT NULL THEN
        v_content := onceward.content_hash(p_event_type, p_payload);
        BEGIN
            INSERT INTO onceward.message_key (digest, content, epoch)
            SELECT p_digest, v_content, s.epoch
            FROM onceward.log_state s;
        EXCEPTION WHEN unique_violation THEN
            PERFORM onceward.refuse_other_content(ARRAY[p_digest], ARRAY[v_content]);
            RETURN 0;
        END;
        IF p_key_days IS NOT NULL THEN
            PERFORM onceward.refuse_other_content(ARRAY[p_digest], ARRAY[v_content]);
            IF pg_catalog.cardinality(
                onceward.remember_keys(ARRAY[p_digest], ARRAY[v_content], ARRAY[p_key_days]))
                OPERATOR(pg_catalog.=) 0
            THEN
                RETURN 0;
            END IF;
        END IF;
    END IF;
    INSERT INTO onceward.message_log (
        seq, xid, created_at,
        occurred_at, id, correlation_uuid, epoch, lane_id, copy, version,
        tenant_id, event_type, topic, ordering_key, idempotency_key,
        correlation_id, causation_id, aggregate_type, aggregate_id,
        headers, payload)
    SELECT pg_catalog.nextval('onceward.message_seq'::pg_catalog.regclass), v_xid,
           pg_catalog.clock_timestamp(),
           p_occurred, p_id, p_correlation_uuid, s.epoch, p_lane, 0, p_version,
           p_tenant, p_event_type, p_topic, p_ordering_key, p_idempotency_key,
           p_correlation, p_causation, p_aggregate_type, p_aggregate_id,
           p_headers::pg_catalog.json, p_payload::pg_catalog.json
    FROM onceward.log_state s
    WHERE s.topology_version OPERATOR(pg_catalog.=) p_topology;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the topology changed' USING ERRCODE = 'OW001';
    END IF;
    RETURN 1;
END
$$;
