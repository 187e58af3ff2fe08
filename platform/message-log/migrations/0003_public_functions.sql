-- Functions that services in other languages call in their own transactions; queue figures, retention and schedules.

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

-- For consumers in other languages: TRUE the first time this consumer records the key. Call it in the transaction that
-- contains the effects.
CREATE FUNCTION onceward.record_inbox(p_tenant text, p_key text, p_consumer text DEFAULT 'default') RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    -- A transaction of one tenant must not suppress another tenant's message. Transactions of the engine have no tenant.
    IF coalesce(current_setting('onceward.tenant_id', true), '') NOT IN ('', p_tenant) THEN
        RAISE EXCEPTION 'this transaction belongs to another tenant' USING ERRCODE = 'OW002';
    END IF;
    INSERT INTO onceward.inbox (consumer, tenant_id, idempotency_key) VALUES (p_consumer, p_tenant, p_key) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

-- The queue, tenant and priority of lanes, for wake-ups.
CREATE FUNCTION onceward.lane_info(p_lanes int[]) RETURNS TABLE (lane_id int, queue_id int, tenant_id text, priority smallint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT l.id, l.queue_id, l.tenant_id, l.priority FROM onceward.lane l WHERE l.id = ANY (p_lanes) $$;

-- Depth and age of every queue. Depth is exact up to p_sample messages per lane; beyond that it is extrapolated from the density of
-- the sample. Deferred messages, including those behind others, and dead letters are counted up to p_sample, and `…_is_more` reports
-- whether more exist. So the cost does not grow with the backlog.
CREATE FUNCTION onceward.queue_stats(p_sample int)
    RETURNS TABLE (queue text, depth bigint, lag_seconds double precision, deferred bigint, dead bigint,
        deferred_is_more boolean, dead_is_more boolean)
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
           coalesce(greatest(0, extract(epoch FROM clock_timestamp() - least(t.first_at, aside.first_at, delayed.due_at))), 0)::double precision,
           least(a.n, p_sample), least(d.n, p_sample), a.n > p_sample, d.n > p_sample
    FROM onceward.queue q
    LEFT JOIN (SELECT lanes.queue_id, sum(lanes.n + coalesce(lanes.beyond, 0)) AS depth, min(lanes.first_at) AS first_at
               FROM lanes GROUP BY 1) t ON t.queue_id = q.id
    -- The age of a failed message, and of those behind it, counts from its publication.
    LEFT JOIN LATERAL (
        SELECT f.created_at AS first_at FROM onceward.deferred f
        WHERE f.queue_id = q.id AND f.state NOT IN ('delayed', 'held') ORDER BY f.created_at LIMIT 1) aside ON true
    -- The age of a message that was delayed on purpose counts from the time at which it was due.
    LEFT JOIN LATERAL (
        SELECT f.due_at FROM onceward.deferred f
        WHERE f.queue_id = q.id AND f.due_at <= clock_timestamp() ORDER BY f.due_at LIMIT 1) delayed ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM onceward.deferred f WHERE f.queue_id = q.id AND f.state <> 'held' LIMIT p_sample + 1) x) a
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM onceward.dead_letters f WHERE f.queue = q.name AND f.status = 'dead' LIMIT p_sample + 1) x) d;
END
$$;

-- Messages of types or versions that no running worker knows, by queue: their number (at most p_sample are counted; `is_more` reports
-- whether more exist), the age of the oldest since its publication, and some of their types. Other messages of their keys wait too.
CREATE FUNCTION onceward.unknown_messages(p_sample int)
    RETURNS TABLE (queue text, messages bigint, is_more boolean, oldest_seconds double precision, event_types text[])
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT q.name,
           least(w.messages, p_sample),
           w.messages > p_sample,
           coalesce(greatest(0, extract(epoch FROM clock_timestamp() - w.oldest)), 0)::double precision,
           coalesce(w.event_types[1:5], '{}')
    FROM onceward.queue q
    CROSS JOIN LATERAL (
        SELECT count(*) AS messages, min(s.created_at) AS oldest, array_agg(DISTINCT s.event_type) AS event_types
        FROM (SELECT d.created_at, (d.message->>'event_type') || '.v' || (d.message->>'version') AS event_type
              FROM onceward.deferred d
              WHERE d.queue_id = q.id AND d.state = 'unknown'
              ORDER BY d.created_at
              LIMIT p_sample + 1) s) w
    ORDER BY q.name
$$;

-- Opens a new partition if the current one is old enough. Returns whether it did.
CREATE FUNCTION onceward.open_epoch(p_max_age interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch int;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19015, 0) THEN RETURN false; END IF;
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

-- Drops the oldest partition that was closed longer ago than p_retention and that no lane still has to read. Returns its
-- number, or NULL if there is none.
CREATE FUNCTION onceward.drop_epoch(p_retention interval) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch  int;
    v_unread boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19015, 0) THEN RETURN NULL; END IF;
    SELECT e.epoch INTO v_epoch FROM onceward.log_epoch e
    WHERE e.closed_at < clock_timestamp() - p_retention ORDER BY e.epoch LIMIT 1;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- Waits for open writers, so that the check sees what they commit.
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

-- Schedules: the process that locks the row publishes the tick.
CREATE FUNCTION onceward.declare_schedule(p_name text, p_definition jsonb, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.schedule AS s (name, definition, next_at) VALUES (p_name, p_definition, p_next)
    ON CONFLICT (name) DO UPDATE SET definition = EXCLUDED.definition, next_at = EXCLUDED.next_at, failures = 0,
        failing_since = NULL, last_error = NULL
    WHERE s.definition <> EXCLUDED.definition
$$;

-- `now`, the database's clock, decides what is due: the clocks of instances may differ.
CREATE FUNCTION onceward.due_schedules(p_names text[]) RETURNS TABLE (name text, next_at timestamptz, now timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT s.name, s.next_at, clock_timestamp()
    FROM onceward.schedule s
    WHERE s.name = ANY (p_names) AND s.next_at <= clock_timestamp()
    ORDER BY s.next_at
    FOR UPDATE SKIP LOCKED
$$;

CREATE FUNCTION onceward.ticked(p_name text, p_last timestamptz, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE onceward.schedule
    SET last_at = coalesce(p_last, last_at), next_at = p_next, failures = 0, failing_since = NULL, last_error = NULL
    WHERE name = p_name
$$;

-- Records that a schedule's ticks could not be published. Returns the number of failures since the last success.
CREATE FUNCTION onceward.schedule_failed(p_name text, p_error text) RETURNS int
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE onceward.schedule
    SET failures = least(failures, 2147483646) + 1, failing_since = coalesce(failing_since, clock_timestamp()),
        last_error = left(p_error, 1000)
    WHERE name = p_name
    RETURNING failures
$$;

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
