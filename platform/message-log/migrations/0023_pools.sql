-- Worker pools. Every process of a pool reports once a second; one of them, whichever comes first, decides
-- the size when a decision is due.

-- Declares a pool. Settings that an operator has changed stay in force; a size outside their bounds is
-- corrected by the next decision.
CREATE FUNCTION onceward.declare_pool(p_name text, p_settings jsonb, p_size int, p_state jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.pool AS p (name, declared, settings, size, state)
    VALUES (p_name, p_settings, p_settings, p_size, p_state)
    ON CONFLICT (name) DO UPDATE
    SET declared = EXCLUDED.declared,
        settings = CASE WHEN p.set_by IS NULL THEN EXCLUDED.settings ELSE p.settings END,
        next_check_at = clock_timestamp()
    WHERE p.declared <> EXCLUDED.declared
$$;

-- Reports the work of one process since its last report. Returns the pool's size, the number of its live
-- processes, this process's rank among them, the settings in force, and whether this process is to decide the
-- size now. A process that has not reported for ten seconds is not live.
CREATE FUNCTION onceward.report_pool(
    p_pool text, p_process text, p_active int, p_blocked text, p_done jsonb,
    OUT size int, OUT members int, OUT rank int, OUT settings jsonb, OUT is_check_due boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
BEGIN
    DELETE FROM onceward.pool_member m
    WHERE m.pool = p_pool
      AND m.seen_at < v_now - interval '10 seconds';
    INSERT INTO onceward.pool_member (pool, process, active, blocked, seen_at)
    VALUES (p_pool, p_process, p_active, p_blocked, v_now)
    ON CONFLICT (pool, process) DO UPDATE
    SET active = EXCLUDED.active,
        blocked = EXCLUDED.blocked,
        seen_at = EXCLUDED.seen_at;
    IF (p_done->>'completed')::bigint + (p_done->>'failed')::bigint > 0 THEN
        UPDATE onceward.pool p
        SET completed = p.completed + (p_done->>'completed')::bigint,
            failed = p.failed + (p_done->>'failed')::bigint,
            busy_ms = p.busy_ms + (p_done->>'busy_ms')::double precision,
            last_completed_at = CASE WHEN (p_done->>'completed')::bigint > 0 THEN v_now
                                     ELSE p.last_completed_at END,
            last_failed_at = CASE WHEN (p_done->>'failed')::bigint > 0 THEN v_now
                                  ELSE p.last_failed_at END
        WHERE p.name = p_pool;
    END IF;
    -- The row's lock lets only one of several processes find that a decision is due.
    UPDATE onceward.pool p
    SET next_check_at = v_now + (p.settings->>'check_every_ms')::bigint * interval '1 millisecond'
    WHERE p.name = p_pool
      AND p.next_check_at <= v_now;
    is_check_due := FOUND;
    SELECT p.size, p.settings INTO size, settings
    FROM onceward.pool p
    WHERE p.name = p_pool;
    SELECT count(*), count(*) FILTER (WHERE m.process < p_process) INTO members, rank
    FROM onceward.pool_member m
    WHERE m.pool = p_pool;
END
$$;

-- A process leaves a pool when it stops, so that the others take its share at once.
CREATE FUNCTION onceward.leave_pools(p_process text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ DELETE FROM onceward.pool_member m WHERE m.process = p_process $$;

-- What waits in queues and could be handled now: the messages that were not read yet (p_sample at most are
-- counted per lane) and those that were deferred and are due, with the age of the oldest; and what waits for
-- a later time.
CREATE FUNCTION onceward.waiting_work(
    p_queues text[], p_sample int, OUT waiting bigint, OUT oldest_ms bigint, OUT delayed bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    AS $$
DECLARE
    v_new   bigint;
    v_due   bigint;
    v_first timestamptz;
BEGIN
    SELECT coalesce(sum(w.messages), 0), min(w.first_at) INTO v_new, v_first
    FROM onceward.queue q
    JOIN onceward.lane l ON l.queue_id = q.id
    LEFT JOIN LATERAL (
        SELECT t.last_seq
        FROM onceward.lane_turn t
        WHERE t.lane_id = l.id
        ORDER BY t.turn DESC
        LIMIT 1) c ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS messages, min(n.created_at) AS first_at
        FROM (
            SELECT m.created_at
            FROM onceward.message_log m
            WHERE m.lane_id = l.id AND m.seq > coalesce(c.last_seq, 0)
            ORDER BY m.seq
            LIMIT p_sample) n) w
    WHERE q.name = ANY (p_queues);
    SELECT count(*) FILTER (WHERE d.due_at <= clock_timestamp()),
           count(*) FILTER (WHERE d.due_at > clock_timestamp() AND d.state <> 'leased'),
           least(v_first, min(d.due_at) FILTER (WHERE d.due_at <= clock_timestamp()))
    INTO v_due, delayed, v_first
    FROM onceward.queue q
    CROSS JOIN LATERAL (
        SELECT f.due_at, f.state
        FROM onceward.deferred f
        WHERE f.queue_id = q.id AND f.due_at IS NOT NULL
        ORDER BY f.due_at
        LIMIT p_sample) d
    WHERE q.name = ANY (p_queues);
    waiting := v_new + v_due;
    oldest_ms := coalesce(greatest(0, extract(epoch FROM clock_timestamp() - v_first) * 1000), 0)::bigint;
END
$$;

-- The figures of a pool that a decision needs: what waits, what the processes do, the counts so far, and the
-- time, in milliseconds of the database's clock.
CREATE FUNCTION onceward.pool_figures(p_pool text)
    RETURNS TABLE (
        waiting bigint, oldest_ms bigint, delayed bigint, active bigint, blocked text, completed bigint,
        failed bigint, busy_ms double precision, figures jsonb, state jsonb, now_ms bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT w.waiting, w.oldest_ms, w.delayed, m.active, m.blocked, p.completed, p.failed, p.busy_ms,
           p.figures, p.state,
           (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM onceward.pool p
    CROSS JOIN LATERAL onceward.waiting_work(
        ARRAY(SELECT jsonb_array_elements_text(p.settings->'queues')), 1000) w
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(n.active), 0) AS active, min(n.blocked) AS blocked
        FROM onceward.pool_member n
        WHERE n.pool = p.name) m
    WHERE p.name = p_pool
$$;

-- Writes a decision. The last 200 changes of a pool are kept.
CREATE FUNCTION onceward.save_pool_size(
    p_pool text, p_from int, p_to int, p_reason text, p_state jsonb, p_figures jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.pool p
    SET size = p_to,
        state = p_state,
        figures = p_figures,
        checked_at = clock_timestamp()
    WHERE p.name = p_pool;
    IF p_from <> p_to THEN
        INSERT INTO onceward.pool_decision (pool, from_size, to_size, reason)
        VALUES (p_pool, p_from, p_to, p_reason);
        DELETE FROM onceward.pool_decision d
        WHERE d.pool = p_pool
          AND d.id <= (
            SELECT o.id
            FROM onceward.pool_decision o
            WHERE o.pool = p_pool
            ORDER BY o.id DESC
            OFFSET 200
            LIMIT 1);
    END IF;
END
$$;

-- Changes a pool's settings, or returns to those of the code (NULL). FALSE: there is no such pool.
CREATE FUNCTION onceward.set_pool(p_pool text, p_settings jsonb, p_by text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.pool p
    SET settings = coalesce(p_settings, p.declared),
        set_by = CASE WHEN p_settings IS NULL THEN NULL ELSE p_by END,
        next_check_at = clock_timestamp()
    WHERE p.name = p_pool;
    RETURN FOUND;
END
$$;

-- Every pool with its figures.
CREATE FUNCTION onceward.pools()
    RETURNS TABLE (
        name text, settings jsonb, set_by text, size int, processes bigint, active bigint, blocked text,
        waiting bigint, oldest_ms bigint, delayed bigint, completed bigint, failed bigint,
        busy_ms double precision, last_completed_at timestamptz, last_failed_at timestamptz,
        checked_at timestamptz, figures jsonb,
        paused bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT p.name, p.settings, p.set_by, p.size, m.processes, m.active, m.blocked, w.waiting, w.oldest_ms,
           w.delayed, p.completed, p.failed, p.busy_ms, p.last_completed_at, p.last_failed_at, p.checked_at,
           p.figures,
           (SELECT count(*)
            FROM onceward.queue_pause u
            JOIN onceward.queue q ON q.id = u.queue_id
            WHERE p.settings->'queues' ? q.name
              AND u.ends_at > clock_timestamp())
    FROM onceward.pool p
    CROSS JOIN LATERAL onceward.waiting_work(
        ARRAY(SELECT jsonb_array_elements_text(p.settings->'queues')), 1000) w
    CROSS JOIN LATERAL (
        SELECT count(*) AS processes, coalesce(sum(n.active), 0) AS active, min(n.blocked) AS blocked
        FROM onceward.pool_member n
        WHERE n.pool = p.name
          AND n.seen_at >= clock_timestamp() - interval '10 seconds') m
    ORDER BY p.name
$$;

-- The latest changes of a pool's size, the newest first.
CREATE FUNCTION onceward.pool_decisions(p_pool text, p_limit int)
    RETURNS TABLE (at timestamptz, from_size int, to_size int, reason text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT d.at, d.from_size, d.to_size, d.reason
    FROM onceward.pool_decision d
    WHERE d.pool = p_pool
    ORDER BY d.id DESC
    LIMIT p_limit
$$;

-- How many workers the pool of a queue needs over all processes, for an autoscaler such as KEDA's postgresql
-- scaler. NULL if the queue belongs to no pool.
CREATE FUNCTION onceward.desired_workers(p_queue text) RETURNS int
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT p.size
    FROM onceward.pool p
    WHERE p.settings->'queues' ? p_queue
    ORDER BY p.name
    LIMIT 1
$$;
