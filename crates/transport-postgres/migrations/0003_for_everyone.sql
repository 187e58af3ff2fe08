-- What teams in other languages call from their own transactions, and what keeps the log small and visible.

CREATE INDEX message_key_epoch ON onceward.message_key USING brin (epoch);

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

-- The first bytes of a tenant-scoped hash; the Rust publisher computes the same (`hash.rs`).
CREATE FUNCTION onceward.scoped_hash(p_tenant text, p_text text) RETURNS bytea
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
    AS $$ SELECT sha256(convert_to(p_tenant || ':' || p_text, 'UTF8')) $$;

-- Publishes one message in the caller's transaction. The same idempotency key publishes once; NULL comes back for the
-- others. Messages with the same ordering key are handled in the order in which their transactions commit: the
-- key is locked from here to the commit, so call this last. The payload is checked against its schema by the consumer.
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
    v_lanes    int[];
    v_copies   int;
    v_topology bigint;
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

    SELECT topology_version INTO v_topology FROM onceward.log_state;
    IF p_ordering_key IS NOT NULL THEN
        v_hash := ('x' || encode(substring(onceward.scoped_hash(p_tenant, p_ordering_key) FROM 1 FOR 4), 'hex'))::bit(32)::bigint;
        v_bucket := ARRAY[(v_hash % 1024)::int];
    ELSE
        v_hash := floor(random() * 4294967296)::bigint;
    END IF;
    IF p_idempotency_key IS NOT NULL THEN
        v_digest := encode(substring(onceward.scoped_hash(p_tenant, p_idempotency_key) FROM 1 FOR 16), 'hex')::uuid;
    END IF;
    SELECT array_agg(onceward.lane_of(q.id, p_tenant, least(greatest(p_priority, 0), q.max_priority)::smallint,
                                      (v_hash % q.shards)::smallint) ORDER BY q.id)
    INTO v_lanes
    FROM onceward.queue q
    WHERE q.id IN (SELECT b.queue_id FROM onceward.binding b WHERE b.exchange = v_exchange AND v_key ~ b.regex);
    v_lanes := coalesce(v_lanes, '{0}');
    v_copies := cardinality(v_lanes);

    IF onceward.append(v_topology, v_bucket, CASE WHEN v_digest IS NULL THEN '{}' ELSE ARRAY[v_digest] END,
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
        array_fill((extract(epoch FROM p_delay) * 1000)::bigint, ARRAY[v_copies])) = 0
    THEN
        RETURN NULL;
    END IF;
    -- A NOTIFY serialises commits, so a session that publishes in a stream sends few; workers stay awake meanwhile.
    IF clock_timestamp() > coalesce(nullif(current_setting('onceward.notified_at', true), '')::timestamptz, '-infinity') + interval '10 ms' THEN
        PERFORM set_config('onceward.notified_at', clock_timestamp()::text, false);
        PERFORM pg_notify('onceward_wake', array_to_string(v_lanes, ','));
    END IF;
    RETURN v_id;
END
$$;

-- For consumers in other languages: TRUE the first time this consumer sees the key. Call it in the transaction that
-- holds the effects.
CREATE FUNCTION onceward.record_inbox(p_tenant text, p_key text, p_consumer text DEFAULT 'default') RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    INSERT INTO onceward.inbox (consumer, tenant_id, idempotency_key) VALUES (p_consumer, p_tenant, p_key) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- Where the lanes are for a wake-up: which queue does each belong to?
CREATE FUNCTION onceward.lane_info(p_lanes int[]) RETURNS TABLE (lane_id int, queue_id int, tenant_id text, priority smallint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT l.id, l.queue_id, l.tenant_id, l.priority FROM onceward.lane l WHERE l.id = ANY (p_lanes) $$;

-- Depth and age of every queue. Exact up to p_sample messages a lane; beyond that the lane's depth is projected from
-- the density of the sample, so that the cost does not grow with the backlog.
CREATE FUNCTION onceward.queue_stats(p_sample int)
    RETURNS TABLE (queue text, depth bigint, lag_seconds double precision, deferred bigint, dead bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
BEGIN
    RETURN QUERY
    WITH lanes AS (
        SELECT l.queue_id, s.n, s.first_at,
               CASE WHEN s.n < p_sample THEN 0
                    ELSE (s.n / greatest(s.to_seq - s.from_seq, 1)::double precision) * (h.top_seq - s.to_seq) END AS beyond
        FROM onceward.lane l
        LEFT JOIN LATERAL (SELECT t.last_seq FROM onceward.lane_turn t WHERE t.lane_id = l.id ORDER BY t.turn DESC LIMIT 1) c ON true
        CROSS JOIN LATERAL (
            SELECT count(*) AS n, min(w.seq) AS from_seq, max(w.seq) AS to_seq, min(w.created_at) AS first_at
            FROM (SELECT m.seq, m.created_at FROM onceward.message_log m
                  WHERE m.lane_id = l.id AND m.seq > coalesce(c.last_seq, 0) ORDER BY m.seq LIMIT p_sample) w) s
        LEFT JOIN LATERAL (
            SELECT m.seq AS top_seq FROM onceward.message_log m WHERE s.n = p_sample AND m.lane_id = l.id ORDER BY m.seq DESC LIMIT 1) h ON true)
    SELECT q.name, coalesce(t.depth, 0)::bigint,
           coalesce(greatest(0, extract(epoch FROM clock_timestamp() - t.first_at)), 0)::double precision,
           (SELECT count(*) FROM (SELECT FROM onceward.deferred d WHERE d.queue_id = q.id AND d.due_at IS NOT NULL LIMIT p_sample) x),
           (SELECT count(*) FROM (SELECT FROM onceward.dead_letters d WHERE d.queue = q.name AND d.status = 'dead' LIMIT p_sample) x)
    FROM onceward.queue q
    LEFT JOIN (SELECT lanes.queue_id, sum(lanes.n + coalesce(lanes.beyond, 0)) AS depth, min(lanes.first_at) AS first_at
               FROM lanes GROUP BY 1) t ON t.queue_id = q.id;
END
$$;

-- Opens a new partition when the current one is old enough. TRUE: it did.
CREATE FUNCTION onceward.open_epoch(p_max_age interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch int;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19013, 0) THEN RETURN false; END IF;
    SELECT e.epoch + 1 INTO v_epoch FROM onceward.log_epoch e JOIN onceward.log_state s ON s.epoch = e.epoch
    WHERE e.opened_at < clock_timestamp() - p_max_age;
    IF NOT FOUND THEN RETURN false; END IF;
    PERFORM set_config('lock_timeout', '2s', true);
    EXECUTE format('CREATE TABLE onceward.message_log_%s (LIKE onceward.message_log INCLUDING ALL) WITH (autovacuum_enabled = false)',
        v_epoch);
    EXECUTE format('ALTER TABLE onceward.message_log ATTACH PARTITION onceward.message_log_%s FOR VALUES IN (%s)', v_epoch, v_epoch);
    UPDATE onceward.log_epoch SET closed_at = clock_timestamp() WHERE epoch = v_epoch - 1;
    INSERT INTO onceward.log_epoch (epoch) VALUES (v_epoch);
    UPDATE onceward.log_state SET epoch = v_epoch;
    RETURN true;
END
$$;

-- Drops the oldest partition that closed longer ago than p_retention and that no lane still has to read. Gives its
-- number, or NULL when there is nothing to drop.
CREATE FUNCTION onceward.drop_epoch(p_retention interval) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch  int;
    v_unread boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19013, 0) THEN RETURN NULL; END IF;
    SELECT e.epoch INTO v_epoch FROM onceward.log_epoch e
    WHERE e.closed_at < clock_timestamp() - p_retention ORDER BY e.epoch LIMIT 1;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- Whoever still writes into it is waited for, so that what they commit is seen by the check.
    PERFORM set_config('lock_timeout', '500ms', true);
    EXECUTE format('LOCK TABLE onceward.message_log_%s IN SHARE MODE', v_epoch);
    EXECUTE format($q$
        SELECT EXISTS (
            SELECT FROM onceward.lane l
            LEFT JOIN LATERAL (SELECT t.last_seq, t.open_floors FROM onceward.lane_turn t WHERE t.lane_id = l.id ORDER BY t.turn DESC LIMIT 1) c ON true
            WHERE EXISTS (SELECT FROM onceward.message_log_%1$s m WHERE m.lane_id = l.id
                          AND m.seq > coalesce((SELECT min(f) FROM unnest(c.open_floors) AS f), c.last_seq, 0)))$q$, v_epoch)
    INTO v_unread;
    IF v_unread THEN RETURN NULL; END IF;
    EXECUTE format('DROP TABLE onceward.message_log_%s', v_epoch);
    DELETE FROM onceward.log_epoch WHERE epoch = v_epoch;
    RETURN v_epoch;
END
$$;

-- Forgets what is older than its time, at most p_limit rows of each kind; gives how many went.
CREATE FUNCTION onceward.forget(p_inbox_retention interval, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_oldest int;
    v_keys   bigint;
    v_inbox  bigint;
BEGIN
    SELECT min(epoch) INTO v_oldest FROM onceward.log_epoch;
    DELETE FROM onceward.message_key WHERE ctid = ANY (ARRAY(
        SELECT k.ctid FROM onceward.message_key k WHERE k.epoch < v_oldest LIMIT p_limit));
    GET DIAGNOSTICS v_keys = ROW_COUNT;
    DELETE FROM onceward.inbox WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM onceward.inbox i WHERE i.received_at < clock_timestamp() - p_inbox_retention LIMIT p_limit));
    GET DIAGNOSTICS v_inbox = ROW_COUNT;
    RETURN v_keys + v_inbox;
END
$$;

-- Schedules: whoever gets the row fires the tick.
CREATE FUNCTION onceward.declare_schedule(p_name text, p_definition jsonb, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.schedule AS s (name, definition, next_at) VALUES (p_name, p_definition, p_next)
    ON CONFLICT (name) DO UPDATE SET definition = EXCLUDED.definition, next_at = EXCLUDED.next_at
    WHERE s.definition <> EXCLUDED.definition
$$;

CREATE FUNCTION onceward.due_schedules(p_names text[]) RETURNS TABLE (name text, next_at timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT s.name, s.next_at FROM onceward.schedule s WHERE s.name = ANY (p_names) AND s.next_at <= clock_timestamp()
    ORDER BY s.next_at FOR UPDATE SKIP LOCKED
$$;

CREATE FUNCTION onceward.ticked(p_name text, p_last timestamptz, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ UPDATE onceward.schedule SET last_at = p_last, next_at = p_next WHERE name = p_name $$;

CREATE FUNCTION onceward.add_tenant(p_id text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF p_id !~ '^[A-Za-z0-9_-]{1,64}$' THEN
        RAISE EXCEPTION 'tenant must be 1 to 64 letters, digits, "-" or "_"' USING ERRCODE = 'OW002';
    END IF;
    INSERT INTO onceward.tenant (id) VALUES (p_id) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA onceward FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA onceward TO onceward_app;
