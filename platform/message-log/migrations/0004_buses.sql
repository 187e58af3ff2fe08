-- External buses. A published message is appended to a lane of the outbox queue instead of the lanes of its readers; the
-- relay takes turns there like any consumer, and a message that is received from the bus lands in its reader's lane.
-- docs/decisions/0010-the-bus-is-a-wire.md explains why.

ALTER TABLE onceward.log_state ADD COLUMN bus text NOT NULL DEFAULT 'postgres';

INSERT INTO onceward.queue (name, shards, max_priority, definition)
VALUES ('@outbox', 8, 9, '{"name": "@outbox", "shards": 8, "max_priority": 9}');

-- What relays have published: up to which number of a lane, and when. One row per turn.
CREATE TABLE onceward.relay_batch (
    lane_id      int         NOT NULL,
    last_seq     bigint      NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lane_id, last_seq)
);
CREATE INDEX relay_batch_published_at ON onceward.relay_batch USING brin (published_at);

-- The state of the bus as each relay last reported it.
CREATE TABLE onceward.relay_state (
    relay      text        PRIMARY KEY,
    bus        text        NOT NULL,
    up         boolean     NOT NULL,
    since      timestamptz NOT NULL,
    last_error text,
    seen_at    timestamptz NOT NULL
);
GRANT SELECT ON onceward.relay_state TO onceward_app;

-- The messages that a relay publishes, of every tenant. Rows of a function are copied before they are sent; those of a view are not.
-- Only a transaction that declares itself a relay sees any: a query that forgets to do so finds nothing.
CREATE VIEW onceward.message_to_carry AS
SELECT lane_id, seq, tenant_id, created_at, occurred_at, id, version, event_type, topic, ordering_key, idempotency_key, correlation_uuid,
       correlation_id, causation_id, headers, payload
FROM onceward.message_log WHERE current_setting('onceward.relay', true) = 'on';
GRANT SELECT ON onceward.message_to_carry TO onceward_app;

-- Returns whether a deferred message blocks this key, so that later messages of the key must wait.
CREATE FUNCTION onceward.is_blocked(p_lane int, p_key text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT EXISTS (SELECT FROM onceward.deferred d WHERE d.lane_id = p_lane AND d.ordering_key = p_key AND d.blocks) $$;

-- Returns whether this message of the log was cancelled.
CREATE FUNCTION onceward.is_cancelled(p_lane int, p_seq bigint) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT EXISTS (SELECT FROM onceward.cancelled k WHERE k.lane_id = p_lane AND k.seq = p_seq) $$;

-- Messages that were cancelled on their way over an external bus: they are not handled when they arrive. Kept as long as the log.
CREATE TABLE onceward.cancelled_arrival (
    event_id  uuid        NOT NULL,
    queue     text        NOT NULL,
    tenant_id text        NOT NULL,
    actor     text        NOT NULL,
    why       text        NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (event_id, queue)
);
SELECT onceward_meta.protect('onceward.cancelled_arrival', '');

-- Advances lanes of the outbox: the messages that were read have been published.
CREATE FUNCTION onceward.advance_outbox(p_lanes int[], p_turns bigint[], p_last_seqs bigint[], p_open_xids text[], p_open_floors text[], p_careful_until bigint[])
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM onceward.advance(p_lanes, p_turns, p_last_seqs, p_open_xids, p_open_floors, p_careful_until);
    INSERT INTO onceward.relay_batch (lane_id, last_seq) SELECT * FROM unnest(p_lanes, p_last_seqs) ON CONFLICT DO NOTHING;
END
$$;

-- Records a relay's report on the bus; deletes relays that have not reported for a while.
CREATE FUNCTION onceward.note_relay(p_relay text, p_bus text, p_up boolean, p_error text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    DELETE FROM onceward.relay_state WHERE seen_at < clock_timestamp() - interval '2 minutes' AND relay <> p_relay;
    INSERT INTO onceward.relay_state AS s (relay, bus, up, since, last_error, seen_at)
    VALUES (p_relay, p_bus, p_up, clock_timestamp(), p_error, clock_timestamp())
    ON CONFLICT (relay) DO UPDATE SET bus = EXCLUDED.bus, up = EXCLUDED.up, last_error = EXCLUDED.last_error, seen_at = EXCLUDED.seen_at,
        since = CASE WHEN s.up = EXCLUDED.up THEN s.since ELSE EXCLUDED.since END
$$;

CREATE FUNCTION onceward.forget_relay(p_relay text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ DELETE FROM onceward.relay_state WHERE relay = p_relay $$;

-- Appends messages received from a bus to their reader's lanes, in the given order, unless they landed there before. The
-- inbox is written first and in the same order by every receiver: one that lands the same messages at the same time waits
-- here and then finds that they have landed. Returns the lanes that have new messages.
CREATE FUNCTION onceward.land(
    p_consumer text, p_key text[],
    p_id uuid[], p_lane int[], p_version smallint[], p_tenant text[], p_event_type text[], p_topic text[],
    p_ordering_key text[], p_idempotency_key text[], p_correlation_uuid uuid[], p_correlation text[], p_causation text[],
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
        SELECT p_consumer, u.tenant, u.key FROM unnest(p_tenant, p_key) AS u(tenant, key) ORDER BY u.tenant, u.key
        ON CONFLICT DO NOTHING RETURNING tenant_id, idempotency_key)
    SELECT coalesce(jsonb_object_agg(f.tenant_id || ':' || f.idempotency_key, true), '{}'), count(*) = cardinality(p_key)
    INTO v_fresh, v_all FROM fresh f;
    WITH landed AS (
        INSERT INTO onceward.message_log (
            seq, xid, created_at, occurred_at, id, correlation_uuid, epoch, lane_id, copy, version, tenant_id, event_type, topic,
            ordering_key, idempotency_key, correlation_id, causation_id, headers, payload)
        SELECT nextval('onceward.message_seq'), v_xid, least(u.published, v_now), u.occurred, u.id, u.correlation_uuid,
               (SELECT epoch FROM onceward.log_state), u.lane, 1, u.version, u.tenant, u.event_type, u.topic, u.ordering_key,
               u.idempotency_key, u.correlation, u.causation, u.headers::json, u.payload::json
        FROM unnest(p_key, p_id, p_lane, p_version, p_tenant, p_event_type, p_topic, p_ordering_key, p_idempotency_key,
                    p_correlation_uuid, p_correlation, p_causation, p_headers, p_payload, p_occurred, p_published)
             AS u(key, id, lane, version, tenant, event_type, topic, ordering_key, idempotency_key, correlation_uuid, correlation,
                  causation, headers, payload, occurred, published)
        WHERE v_all OR v_fresh ? (u.tenant || ':' || u.key)
        RETURNING lane_id)
    SELECT array_agg(DISTINCT l.lane_id) INTO v_lanes FROM landed l;
    IF EXISTS (SELECT FROM onceward.cancelled_arrival) THEN
        PERFORM onceward.cancel_landed(p_consumer, p_id, v_lanes);
    END IF;
    RETURN coalesce(v_lanes, '{}');
END
$$;

-- The positions of readers of a bus that keeps messages after they were read. A position is written in the commit that lands
-- the messages before it: whatever the bus forgets, nothing lands twice (docs/decisions/0021-positions-and-backlogs.md).
-- Queues and sources have their names on the bus.
CREATE TABLE onceward.bus_position (
    queue       text        NOT NULL,
    source      text        NOT NULL,
    partition   int         NOT NULL,
    next_offset bigint      NOT NULL,
    last_ms     bigint      NOT NULL,
    written_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, source, partition)
);

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

CREATE FUNCTION onceward.positions(p_queues text[])
    RETURNS TABLE (queue text, source text, partition int, next_offset bigint, last_ms bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT b.queue, b.source, b.partition, b.next_offset, b.last_ms
    FROM onceward.bus_position b
    WHERE b.queue = ANY (p_queues)
$$;

-- For operators who want a queue to be read again: with its readers stopped, delete its positions, and only then reset the
-- offsets on the bus. Messages that the inbox still remembers are not handled again.
CREATE FUNCTION onceward.forget_positions(p_queue text) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH gone AS (DELETE FROM onceward.bus_position b WHERE b.queue = p_queue RETURNING 1)
    SELECT count(*) FROM gone
$$;

-- How many messages of a queue landed from a bus that cannot report the age of waiting messages,
CREATE TABLE onceward.bus_landed (
    queue  text   PRIMARY KEY,
    landed bigint NOT NULL
);

-- and the observations of such a queue: when it was last observed, since when messages wait, and a mark, which is the
-- number that waited at one moment and the number that had landed by then.
CREATE TABLE onceward.bus_backlog (
    queue        text        PRIMARY KEY,
    checked_at   timestamptz NOT NULL,
    oldest_at    timestamptz,
    mark_at      timestamptz NOT NULL,
    mark_waiting bigint      NOT NULL,
    mark_landed  bigint      NOT NULL
);

CREATE FUNCTION onceward.count_landed(p_queue text, p_count bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.bus_landed AS l (queue, landed)
    VALUES (p_queue, p_count)
    ON CONFLICT (queue) DO UPDATE
    SET landed = l.landed + EXCLUDED.landed
$$;

-- Records how many messages wait in queues of a bus that keeps their order but cannot report their age. Returns for each queue
-- a time before which none of its waiting messages was published: the age computed from it is never too small. p_age is how
-- long ago the bus was queried, p_in_hand how many messages its readers may have had in flight then.
CREATE FUNCTION onceward.note_backlogs(p_queues text[], p_waiting bigint[], p_age interval, p_in_hand bigint)
    RETURNS TABLE (queue text, oldest_at timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.bus_backlog AS b (queue, checked_at, oldest_at, mark_at, mark_waiting, mark_landed)
    SELECT u.queue, t.asked_at, CASE WHEN u.waiting > 0 THEN t.asked_at END, t.asked_at, u.waiting, coalesce(l.landed, 0)
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

-- The destinations of a published message: its readers' queues and lanes, or the outbox if a relay publishes it. Without a reader it
-- has no queue, and its lane is -1. Two plain queries: one with both cases is so complex that the planner would compile it again for
-- every message.
CREATE FUNCTION onceward.lanes_for(
    p_exchange text, p_routing_key text, p_tenant text, p_priority int, p_hash bigint, OUT queues int[], OUT lanes int[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (SELECT FROM onceward.log_state WHERE bus = 'postgres') THEN
        queues := ARRAY(SELECT DISTINCT b.queue_id FROM onceward.binding b
                          WHERE b.exchange = p_exchange AND p_routing_key ~ b.regex ORDER BY 1);
    ELSE
        queues := ARRAY(SELECT q.id FROM onceward.queue q WHERE q.name = '@outbox');
    END IF;
    SELECT array_agg(onceward.lane_of(q.id, p_tenant, least(greatest(p_priority, 0), q.max_priority)::smallint,
                                      (p_hash % q.shards)::smallint) ORDER BY q.id)
    INTO lanes FROM onceward.queue q WHERE q.id = ANY (queues);
    lanes := coalesce(lanes, '{-1}');
END
$$;

CREATE INDEX dead_letters_by_event ON onceward.dead_letters (event_id);
CREATE INDEX deferred_event ON onceward.deferred (((message->>'id')::uuid));

-- Deletes expired rows, at most p_limit of each kind. Returns their number.
CREATE FUNCTION onceward.forget(p_inbox_retention interval, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_oldest int;
    v_keys   bigint;
    v_longer bigint;
    v_inbox  bigint;
    v_relay  bigint;
    v_gone   bigint;
BEGIN
    SELECT min(epoch) INTO v_oldest FROM onceward.log_epoch;
    DELETE FROM onceward.message_key WHERE ctid = ANY (ARRAY(
        SELECT k.ctid FROM onceward.message_key k WHERE k.epoch < v_oldest LIMIT p_limit));
    GET DIAGNOSTICS v_keys = ROW_COUNT;
    DELETE FROM onceward.lasting_key WHERE digest = ANY (ARRAY(
        SELECT k.digest FROM onceward.lasting_key k WHERE k.keep_until < clock_timestamp() ORDER BY k.keep_until LIMIT p_limit));
    GET DIAGNOSTICS v_longer = ROW_COUNT;
    DELETE FROM onceward.inbox WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM onceward.inbox i WHERE i.received_at < clock_timestamp() - p_inbox_retention LIMIT p_limit));
    GET DIAGNOSTICS v_inbox = ROW_COUNT;
    DELETE FROM onceward.relay_batch WHERE ctid = ANY (ARRAY(
        SELECT b.ctid FROM onceward.relay_batch b
        WHERE b.published_at < (SELECT opened_at FROM onceward.log_epoch WHERE epoch = v_oldest) LIMIT p_limit));
    GET DIAGNOSTICS v_relay = ROW_COUNT;
    DELETE FROM onceward.cancelled_arrival WHERE ctid = ANY (ARRAY(
        SELECT c.ctid FROM onceward.cancelled_arrival c
        WHERE c.at < (SELECT opened_at FROM onceward.log_epoch WHERE epoch = v_oldest) LIMIT p_limit));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_keys + v_longer + v_inbox + v_relay + v_gone;
END
$$;

-- The publication state of a row of the outbox.
CREATE FUNCTION onceward.publication(p_lane int, p_seq bigint, p_xid xid8, p_id uuid, p_created timestamptz)
    RETURNS TABLE (attempt_count int, last_error text, next_retry_at timestamptz, published_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_outbox boolean := EXISTS (SELECT FROM onceward.lane l JOIN onceward.queue q ON q.id = l.queue_id
                                WHERE l.id = p_lane AND q.name = '@outbox');
    v_turn   onceward.lane_turn;
BEGIN
    attempt_count := 0;
    IF NOT v_outbox AND p_lane <> 0 THEN
        published_at := p_created;
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT d.attempts, d.last_error, d.due_at INTO attempt_count, last_error, next_retry_at FROM onceward.deferred d
    WHERE d.queue_id = (SELECT id FROM onceward.queue WHERE name = '@outbox') AND (d.message->>'id')::uuid = p_id
      AND (p_lane = 0 OR d.lane_id = p_lane) LIMIT 1;
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT d.attempts, d.last_error INTO attempt_count, last_error FROM onceward.dead_letters d
    WHERE d.queue = '@outbox' AND d.event_id = p_id AND d.status <> 'requeued' LIMIT 1;
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
    SELECT t.* INTO v_turn FROM onceward.lane_turn t WHERE t.lane_id = p_lane ORDER BY t.turn DESC LIMIT 1;
    IF p_seq <= coalesce(v_turn.last_seq, 0) AND NOT p_xid = ANY (coalesce(v_turn.open_xids, '{}')) THEN
        attempt_count := 1;
        -- The batches of the oldest partitions are deleted before their rows are.
        SELECT greatest(b.published_at, p_created) INTO published_at FROM onceward.relay_batch b
        WHERE b.lane_id = p_lane AND b.last_seq >= p_seq ORDER BY b.last_seq LIMIT 1;
        published_at := coalesce(published_at, p_created);
    END IF;
    RETURN NEXT;
END
$$;

-- Publishes one message in the caller's transaction. The same idempotency key publishes once and returns NULL for repetitions; the same
-- key with other content is an error. Messages with the same ordering key are handled in the order in which their transactions commit: the
-- key is locked from here to the commit, so call this last. The consumer checks the payload against its schema.
CREATE FUNCTION onceward.enqueue(
    p_tenant text, p_topic text, p_event_type text, p_payload jsonb, p_idempotency_key text DEFAULT NULL,
    p_ordering_key text DEFAULT NULL, p_correlation_id text DEFAULT NULL, p_causation_id text DEFAULT NULL,
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
    ELSIF length(p_idempotency_key) NOT BETWEEN 1 AND 255 OR length(p_ordering_key) NOT BETWEEN 1 AND 255
        OR length(p_correlation_id) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'keys and correlation ids have 1 to 255 characters' USING ERRCODE = 'OW002';
    ELSIF NOT EXISTS (SELECT FROM onceward.exchange WHERE name = v_exchange) THEN
        RAISE EXCEPTION 'exchange "%" is not declared', v_exchange USING ERRCODE = 'OW002',
            HINT = 'Declare it in a service''s topology and run onceward migrate.';
    END IF;

    SELECT topology_version, (key_days->>v_name)::int INTO v_topology, v_key_days FROM onceward.log_state;
    IF p_ordering_key IS NOT NULL THEN
        v_hash := ('x' || encode(substring(onceward.scoped_hash(p_tenant, p_ordering_key) FROM 1 FOR 4), 'hex'))::bit(32)::bigint;
        v_bucket := ARRAY[(v_hash % 1024)::int];
    ELSE
        v_hash := floor(random() * 4294967296)::bigint;
    END IF;
    IF p_idempotency_key IS NOT NULL THEN
        v_digest := encode(substring(onceward.scoped_hash(p_tenant, p_idempotency_key) FROM 1 FOR 16), 'hex')::uuid;
    END IF;
    SELECT f.queues, f.lanes INTO v_queues, v_lanes FROM onceward.lanes_for(v_exchange, v_key, p_tenant, p_priority, v_hash) f;
    IF cardinality(v_queues) = 0 THEN
        v_lanes := ARRAY[onceward.unrouted_lane(v_exchange, p_event_type)];
    END IF;
    v_copies := cardinality(v_lanes);

    IF v_copies = 1 AND p_delay IS NULL THEN
        v_rows := onceward.append_one(v_topology, v_bucket[1], v_digest, v_id, v_lanes[1], v_version::smallint, p_tenant, v_name, p_topic,
            p_ordering_key, p_idempotency_key, CASE WHEN p_correlation_id IS NULL THEN onceward.uuid_v7() END, p_correlation_id,
            p_causation_id, p_aggregate_type, p_aggregate_id, p_headers::text, p_payload::text, NULL, v_key_days);
    ELSE
        v_rows := onceward.append(v_topology, v_bucket, CASE WHEN v_digest IS NULL THEN '{}' ELSE ARRAY[v_digest] END,
            array_fill(v_id, ARRAY[v_copies]), array_fill(v_digest, ARRAY[v_copies]), v_lanes,
            ARRAY(SELECT (n - 1)::smallint FROM generate_series(1, v_copies) AS n),
            array_fill(v_version::smallint, ARRAY[v_copies]), array_fill(p_tenant, ARRAY[v_copies]), array_fill(v_name, ARRAY[v_copies]),
            array_fill(p_topic, ARRAY[v_copies]), array_fill(p_ordering_key, ARRAY[v_copies]),
            array_fill(p_idempotency_key, ARRAY[v_copies]),
            array_fill(CASE WHEN p_correlation_id IS NULL THEN onceward.uuid_v7() END, ARRAY[v_copies]),
            array_fill(p_correlation_id, ARRAY[v_copies]),
            array_fill(p_causation_id, ARRAY[v_copies]), array_fill(p_aggregate_type, ARRAY[v_copies]),
            array_fill(p_aggregate_id, ARRAY[v_copies]), array_fill(p_headers::text, ARRAY[v_copies]),
            array_fill(p_payload::text, ARRAY[v_copies]), array_fill(NULL::timestamptz, ARRAY[v_copies]),
            array_fill((extract(epoch FROM p_delay) * 1000)::bigint, ARRAY[v_copies]), array_fill(v_key_days, ARRAY[v_copies]));
    END IF;
    IF v_rows = 0 THEN
        RETURN NULL;
    END IF;
    IF cardinality(v_queues) = 0 THEN
        RAISE NOTICE 'no queue is bound to "%", so this message will not be handled', p_topic
            USING HINT = 'Bind a queue to it, or correct the topic. `onceward outbox status` lists such messages.';
    END IF;
    -- A NOTIFY serialises commits, so a session that publishes to a queue continuously sends few; the workers of that queue poll again
    -- after 15 ms. A notification arrives at the commit. So it is omitted only if this transaction has already sent one, or if it is a
    -- single statement and therefore commits immediately.
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

-- Sets the event types whose keys are remembered for longer than their partition, and for how many days. Publishers read this with
-- the topology, so a change counts as a change of the topology. Returns whether it changed.
CREATE FUNCTION onceward.set_key_days(p_key_days jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.log_state SET key_days = p_key_days, topology_version = topology_version + 1 WHERE key_days <> p_key_days;
    RETURN FOUND;
END
$$;

-- Unrouted messages by exchange and event type, the most frequent first. Of each type the latest p_sample messages are counted, and
-- `is_more` reports whether more exist. They are kept as long as their partition.
CREATE FUNCTION onceward.unrouted(p_sample int)
    RETURNS TABLE (exchange text, event_type text, messages bigint, is_more boolean, example text, first_at timestamptz, last_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off
    AS $$
BEGIN
    RETURN QUERY
    SELECT split_part(m.topic, ':', 1), m.event_type || '.v' || m.version, least(count(*), p_sample), count(*) > p_sample, max(m.topic),
           min(m.created_at), max(m.created_at)
    FROM (SELECT -1 AS id UNION ALL SELECT u.id FROM onceward.unrouted_lane u) lane
    CROSS JOIN LATERAL (
        SELECT l.topic, l.event_type, l.version, l.created_at FROM onceward.message_log l
        WHERE l.lane_id = lane.id AND onceward.sees(l.tenant_id)
        ORDER BY l.seq DESC LIMIT p_sample + 1) m
    GROUP BY 1, 2
    ORDER BY 3 DESC, 1, 2;
END
$$;

-- The outbox under the names that existing consumers expect. On an external bus a row is published once the bus has confirmed it to a
-- relay; one that the bus refused waits with its error.
CREATE OR REPLACE VIEW onceward.outbox_messages WITH (security_invoker = true) AS
SELECT m.id, m.tenant_id, m.aggregate_type, m.aggregate_id, m.event_type || '.v' || m.version AS event_type, m.topic, m.ordering_key,
       coalesce(m.idempotency_key, m.id::text) AS idempotency_key, m.payload, m.headers,
       coalesce(m.correlation_id, m.correlation_uuid::text) AS correlation_id, m.causation_id,
       m.created_at, coalesce(m.occurred_at, m.created_at) AS occurred_at, p.attempt_count, p.last_error, p.next_retry_at, p.published_at
FROM onceward.message_log m
CROSS JOIN LATERAL onceward.publication(m.lane_id, m.seq, m.xid, m.id, m.created_at) p
WHERE m.copy = 0;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA onceward FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA onceward TO onceward_app;
