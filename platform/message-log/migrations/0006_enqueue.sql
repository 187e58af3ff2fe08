-- Enqueue: functions that services in other languages call in their own transactions.

-- A UUID of version 7, which begins with the time.
CREATE FUNCTION onceward.uuid_v7() RETURNS uuid
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_bytes bytea := uuid_send(gen_random_uuid());
    v_ms    bytea := int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint);
BEGIN
    v_bytes := overlay(v_bytes PLACING substring(v_ms FROM 3 FOR 6) FROM 1 FOR 6);
    v_bytes := set_byte(v_bytes, 6, (get_byte(v_bytes, 6) & 15) | 112);
    RETURN encode(v_bytes, 'hex')::uuid;
END
$$;

-- Publishes one message in the caller's transaction. The same idempotency key publishes once and returns NULL
-- for repetitions; the same key with other content is an error. Messages with the same ordering key are
-- handled in the order in which their transactions commit: the key is locked from here to the commit, so call
-- this last. The consumer checks the payload against its schema.
CREATE FUNCTION onceward.enqueue(
    p_tenant text, p_topic text, p_event_type text, p_payload jsonb,
    p_idempotency_key text DEFAULT NULL, p_ordering_key text DEFAULT NULL,
    p_correlation_id text DEFAULT NULL, p_causation_id text DEFAULT NULL,
    p_headers jsonb DEFAULT NULL, p_delay interval DEFAULT NULL, p_priority int DEFAULT 0,
    p_aggregate_type text DEFAULT NULL, p_aggregate_id text DEFAULT NULL)
    RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id       uuid := onceward.uuid_v7();
    v_exchange text := split_part(p_topic, ':', 1);
    v_key      text := substr(p_topic, length(split_part(p_topic, ':', 1)) + 2);
    v_name     text := regexp_replace(p_event_type, '\.v[0-9]+$', '');
    v_version  text := substring(p_event_type FROM '\.v([0-9]+)$');
    v_digest   uuid;
    v_bucket   int[] := '{}';
    v_hash     bigint;
    v_queues   int[];
    v_lanes    int[];
    v_copies   int;
    v_topology bigint;
    v_key_days int;
    v_throttle text;
    v_last     text[];
    v_xid      text;
    v_wake     int[] := '{}';
    v_rows     int;
    v_current  text := coalesce(current_setting('onceward.tenant_id', true), '');
BEGIN
    IF p_tenant IS NULL OR p_tenant !~ '^[A-Za-z0-9_-]{1,64}$' THEN
        RAISE EXCEPTION 'tenant must be 1 to 64 letters, digits, "-" or "_"' USING ERRCODE = 'OW002';
    ELSIF v_current <> '' AND v_current <> p_tenant THEN
        RAISE EXCEPTION 'this transaction belongs to another tenant' USING ERRCODE = 'OW002';
    ELSIF v_version IS NULL OR v_version::numeric NOT BETWEEN 1 AND 32767 THEN
        RAISE EXCEPTION 'event type must end in its version, like order.placed.v1' USING ERRCODE = 'OW002';
    ELSIF p_topic IS NULL OR position(':' IN p_topic) = 0 THEN
        RAISE EXCEPTION 'topic must be <exchange>:<routing key>' USING ERRCODE = 'OW002';
    ELSIF p_payload IS NULL OR jsonb_typeof(p_payload) <> 'object' THEN
        RAISE EXCEPTION 'payload must be a JSON object' USING ERRCODE = 'OW002';
    ELSIF length(p_idempotency_key) NOT BETWEEN 1 AND 255
        OR length(p_ordering_key) NOT BETWEEN 1 AND 255
        OR length(p_correlation_id) NOT BETWEEN 1 AND 255
    THEN
        RAISE EXCEPTION 'keys and correlation ids have 1 to 255 characters' USING ERRCODE = 'OW002';
    ELSIF NOT EXISTS (SELECT FROM onceward.exchange WHERE name = v_exchange) THEN
        RAISE EXCEPTION 'exchange "%" is not declared', v_exchange
            USING ERRCODE = 'OW002',
            HINT = 'Declare it in a service''s topology and run onceward migrate.';
    END IF;

    SELECT topology_version, (key_days->>v_name)::int INTO v_topology, v_key_days
    FROM onceward.log_state;
    IF p_ordering_key IS NOT NULL THEN
        v_hash := ('x' || encode(
            substring(onceward.scoped_hash(p_tenant, p_ordering_key) FROM 1 FOR 4),
            'hex'))::bit(32)::bigint;
        v_bucket := ARRAY[(v_hash % 1024)::int];
    ELSE
        v_hash := floor(random() * 4294967296)::bigint;
    END IF;
    IF p_idempotency_key IS NOT NULL THEN
        v_digest := encode(
            substring(onceward.scoped_hash(p_tenant, p_idempotency_key) FROM 1 FOR 16),
            'hex')::uuid;
    END IF;
    SELECT f.queues, f.lanes INTO v_queues, v_lanes
    FROM onceward.lanes_for(v_exchange, v_key, p_tenant, p_priority, v_hash) f;
    IF cardinality(v_queues) = 0 THEN
        v_lanes := ARRAY[onceward.unrouted_lane(v_exchange, p_event_type)];
    END IF;
    v_copies := cardinality(v_lanes);

    IF v_copies = 1 AND p_delay IS NULL THEN
        v_rows := onceward.append_one(
            v_topology, v_bucket[1], v_digest,
            v_id, v_lanes[1], v_version::smallint,
            p_tenant, v_name, p_topic, p_ordering_key, p_idempotency_key,
            CASE WHEN p_correlation_id IS NULL THEN onceward.uuid_v7() END, p_correlation_id, p_causation_id,
            p_aggregate_type, p_aggregate_id, p_headers::text, p_payload::text,
            NULL, v_key_days);
    ELSE
        v_rows := onceward.append(
            v_topology, v_bucket, CASE WHEN v_digest IS NULL THEN '{}' ELSE ARRAY[v_digest] END,
            array_fill(v_id, ARRAY[v_copies]),
            array_fill(v_digest, ARRAY[v_copies]),
            v_lanes,
            ARRAY(SELECT (n - 1)::smallint FROM generate_series(1, v_copies) AS n),
            array_fill(v_version::smallint, ARRAY[v_copies]),
            array_fill(p_tenant, ARRAY[v_copies]),
            array_fill(v_name, ARRAY[v_copies]),
            array_fill(p_topic, ARRAY[v_copies]),
            array_fill(p_ordering_key, ARRAY[v_copies]),
            array_fill(p_idempotency_key, ARRAY[v_copies]),
            array_fill(CASE WHEN p_correlation_id IS NULL THEN onceward.uuid_v7() END, ARRAY[v_copies]),
            array_fill(p_correlation_id, ARRAY[v_copies]),
            array_fill(p_causation_id, ARRAY[v_copies]),
            array_fill(p_aggregate_type, ARRAY[v_copies]),
            array_fill(p_aggregate_id, ARRAY[v_copies]),
            array_fill(p_headers::text, ARRAY[v_copies]),
            array_fill(p_payload::text, ARRAY[v_copies]),
            array_fill(NULL::timestamptz, ARRAY[v_copies]),
            array_fill((extract(epoch FROM p_delay) * 1000)::bigint, ARRAY[v_copies]),
            array_fill(v_key_days, ARRAY[v_copies]));
    END IF;
    IF v_rows = 0 THEN
        RETURN NULL;
    END IF;
    IF cardinality(v_queues) = 0 THEN
        RAISE NOTICE 'no queue is bound to "%", so this message will not be handled', p_topic
            USING HINT = 'Bind a queue to it, or correct the topic. '
                '`onceward outbox status` lists such messages.';
    END IF;
    -- A NOTIFY serialises commits, so a session that publishes to a queue continuously sends few; the workers
    -- of that queue poll again after 15 ms. A notification arrives at the commit. So it is omitted only if
    -- this transaction has already sent one, or if it is a single statement and therefore commits
    -- immediately.
    v_xid := pg_current_xact_id()::text;
    FOR n IN 1 .. cardinality(v_queues) LOOP
        v_throttle := 'onceward.notified_' || v_queues[n];
        v_last := string_to_array(nullif(current_setting(v_throttle, true), ''), '/');
        IF v_last[1] IS DISTINCT FROM v_xid
            AND (transaction_timestamp() <> statement_timestamp()
                 OR clock_timestamp() > coalesce(v_last[2]::timestamptz, '-infinity') + interval '10 ms')
        THEN
            PERFORM set_config(v_throttle, v_xid || '/' || clock_timestamp(), false);
            v_wake := v_wake || v_lanes[n];
        END IF;
    END LOOP;
    IF cardinality(v_wake) > 0 THEN
        PERFORM pg_notify('onceward_wake', array_to_string(v_wake, ','));
    END IF;
    RETURN v_id;
END
$$;

-- For consumers in other languages: TRUE the first time this consumer records the key. Call it in the
-- transaction that contains the effects.
CREATE FUNCTION onceward.record_inbox(p_tenant text, p_key text, p_consumer text DEFAULT 'default')
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- A transaction of one tenant must not suppress another tenant's message. Transactions of the engine have
    -- no tenant.
    IF coalesce(current_setting('onceward.tenant_id', true), '') NOT IN ('', p_tenant) THEN
        RAISE EXCEPTION 'this transaction belongs to another tenant' USING ERRCODE = 'OW002';
    END IF;
    INSERT INTO onceward.inbox (consumer, tenant_id, idempotency_key)
    VALUES (p_consumer, p_tenant, p_key)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
