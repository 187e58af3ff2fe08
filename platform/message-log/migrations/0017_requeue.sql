-- Requeue: dead letters return to their lanes.
--
-- A letter is requeued into the lane it was taken from, as a deferred message that becomes due. It takes its
-- old place in the order of its key: behind messages published before it and ahead of messages published
-- after it, as far as they still wait in onceward.deferred. Only a message that a worker holds under a lease
-- cannot be overtaken. Messages of the key that are still unread in the log are younger than any letter and
-- follow it anyway. The exception is a message that was cancelled and that no turn has passed yet: it is
-- still in the log, and is requeued by forgetting that it was cancelled.
--
-- A letter that holds its key has a row in onceward.deferred, in the state `held`. Requeuing the letter
-- deletes that row.

-- Returns whether a letter's message can be requeued. One that arrived without an id, or whose columns could
-- not be read, can only be viewed.
CREATE FUNCTION onceward.is_readable(p_message jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT p_message ? 'id' AND p_message ? 'payload' AND NOT p_message ? 'tenant_id' $$;

-- The shard of a letter whose lane is not known.
CREATE FUNCTION onceward.shard_of_letter(p_letter onceward.dead_letters, p_shards int) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (('x' || encode(substring(
        onceward.scoped_hash(p_letter.tenant_id, coalesce(p_letter.ordering_key, p_letter.event_id::text))
        FROM 1 FOR 4), 'hex'))::bit(32)::bigint % p_shards)::smallint
$$;

-- The lane that a letter belongs to; NULL if it does not exist yet, or the queue is not declared.
CREATE FUNCTION onceward.lane_of_letter(p_letter onceward.dead_letters) RETURNS int
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(p_letter.lane_id, (
        SELECT l.id
        FROM onceward.queue q
        JOIN onceward.lane l
            ON l.queue_id = q.id
            AND l.tenant_id = p_letter.tenant_id
            AND l.priority = 0
            AND l.shard = onceward.shard_of_letter(p_letter, q.shards)
        WHERE q.name = p_letter.queue))
$$;

-- Returns whether the letter's message was cancelled and is still unread in the log.
CREATE FUNCTION onceward.is_unread(p_letter onceward.dead_letters) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT p_letter.reason = 'cancelled'
       AND EXISTS (
           SELECT
           FROM onceward.cancelled k
           WHERE k.lane_id = p_letter.lane_id AND k.seq = p_letter.seq)
$$;

-- What requeuing these letters would do, in the order of p_ids. A letter that is the first of its key becomes
-- due after p_delay_ms plus p_step_us for each letter before it, counting from p_first; one that was requeued
-- n times before waits another 2^n seconds, at most a minute. The others wait behind it and have no wait of
-- their own. Rows with an `aside` are messages that already wait and that now have a letter ahead of them.
CREATE FUNCTION onceward.plan_requeue(
    p_ids bigint[], p_force boolean, p_first bigint, p_delay_ms bigint, p_step_us bigint)
    RETURNS TABLE (
        id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int,
        ordering_key text, requeues int, lane_id int, wait_ms bigint, aside bigint, place bigint, nth bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH asked AS MATERIALIZED (
        SELECT a.nth, a.id, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.seq,
               coalesce(d.occurred_at, d.dead_at) AS at,
               onceward.requeues(d) AS requeues,
               onceward.lane_of_letter(d) AS lane_id,
               onceward.is_unread(d) AS is_unread,
               CASE WHEN d.id IS NULL THEN 'missing'
                    WHEN d.status = 'requeued' THEN 'requeued'
                    WHEN d.status = 'quarantined' AND NOT p_force THEN 'quarantined'
                    WHEN NOT EXISTS (SELECT FROM onceward.queue q WHERE q.name = d.queue) THEN 'no_queue'
                    WHEN NOT onceward.is_readable(d.message) THEN 'unreadable' END AS refusal
        FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth)
        LEFT JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)),
    line AS (
        SELECT a.id AS letter, NULL::bigint AS aside,
               coalesce(a.lane_id::text, a.queue || '/' || a.tenant_id) AS home,
               a.ordering_key, a.seq, a.at, a.event_id
        FROM asked a
        WHERE a.refusal IS NULL AND a.ordering_key IS NOT NULL AND NOT a.is_unread
        UNION ALL
        SELECT NULL, f.id, f.lane_id::text, f.ordering_key, f.seq,
               coalesce(onceward.occurred(f.message), f.created_at),
               (f.message->>'id')::uuid
        FROM (
            SELECT DISTINCT a.lane_id, a.ordering_key
            FROM asked a
            WHERE a.refusal IS NULL) k
        JOIN onceward.deferred f
            ON f.lane_id = k.lane_id
            AND f.ordering_key = k.ordering_key
            AND f.blocks
            AND f.state <> 'leased'
        -- The row with which one of these letters holds its key is replaced by its message.
        WHERE NOT EXISTS (SELECT FROM asked a WHERE a.id = f.dead_letter_id AND a.refusal IS NULL)),
    timed AS (
        SELECT l.*,
               max(l.at) OVER (
                   PARTITION BY l.home, l.ordering_key, l.seq > 0
                   ORDER BY l.seq, l.at, l.event_id
                   ROWS UNBOUNDED PRECEDING) AS follows
        FROM line l),
    placed AS (
        SELECT t.letter, t.aside, row_number() OVER w AS place,
               coalesce(
                   bool_or(t.letter IS NOT NULL) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                   false) AS behind_letter
        FROM timed t
        WINDOW w AS (
            PARTITION BY t.home, t.ordering_key
            ORDER BY t.follows, t.seq, t.event_id, t.aside, t.letter)),
    judged AS (
        SELECT a.*, p.place,
               a.refusal IS NULL
               AND NOT a.is_unread
               AND coalesce(p.place, 1) = 1
               AND NOT EXISTS (
                   SELECT
                   FROM onceward.deferred f
                   WHERE f.lane_id = a.lane_id
                     AND f.ordering_key = a.ordering_key
                     AND f.blocks
                     AND f.state = 'leased') AS is_first
        FROM asked a
        LEFT JOIN placed p ON p.letter = a.id)
    SELECT j.id, j.refusal, j.queue, j.tenant_id, j.event_id, j.event_type, j.version, j.ordering_key,
           j.requeues, j.lane_id,
           CASE WHEN j.is_unread THEN 0
                WHEN j.is_first THEN
                    p_delay_ms
                    + (p_first + count(*) FILTER (WHERE j.is_first) OVER (ORDER BY j.nth) - 1)
                      * p_step_us / 1000
                    + CASE WHEN j.requeues > 0 THEN least(60, 2 ^ least(j.requeues, 6))::bigint * 1000
                           ELSE 0 END END,
           NULL::bigint, j.place, j.nth
    FROM judged j
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, p.aside, p.place, NULL
    FROM placed p
    WHERE p.aside IS NOT NULL AND p.behind_letter
    ORDER BY 14
$$;

-- Requeues letters and returns the outcome of each. No worker takes a turn in their lanes meanwhile: letters
-- and then lanes are locked, each in the same order for every caller, and so are the waiting messages,
-- because a lease may be returned at any time.
CREATE FUNCTION onceward.requeue(
    p_ids bigint[], p_force boolean, p_first bigint, p_delay_ms bigint, p_step_us bigint, p_actor text,
    p_why text)
    RETURNS TABLE (
        id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int,
        ordering_key text, requeues int, lane_id int, wait_ms bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_lanes int[];
    v_now   timestamptz;
BEGIN
    PERFORM set_config('lock_timeout', '10s', true);
    PERFORM
    FROM onceward.dead_letters d
    WHERE d.id = ANY (p_ids) AND onceward.sees(d.tenant_id)
    ORDER BY d.id
    FOR UPDATE;
    PERFORM onceward.lane_of(n.queue_id, n.tenant_id, 0::smallint, n.shard)
    FROM (
        SELECT DISTINCT q.id AS queue_id, d.tenant_id, onceward.shard_of_letter(d, q.shards) AS shard
        FROM onceward.dead_letters d
        JOIN onceward.queue q ON q.name = d.queue
        WHERE d.id = ANY (p_ids)
          AND d.lane_id IS NULL
          AND onceward.is_readable(d.message)
          AND onceward.sees(d.tenant_id)
        ORDER BY 1, 2, 3) n;
    PERFORM pg_advisory_xact_lock(19012, k.lane_id)
    FROM (
        SELECT DISTINCT onceward.lane_of_letter(d) AS lane_id
        FROM onceward.dead_letters d
        WHERE d.id = ANY (p_ids)
          AND d.status <> 'requeued'
          AND (d.ordering_key IS NOT NULL OR d.reason = 'cancelled')
          AND onceward.sees(d.tenant_id)
        ORDER BY 1) k
    WHERE k.lane_id IS NOT NULL;
    PERFORM
    FROM onceward.deferred f
    WHERE f.blocks
      AND (f.lane_id, f.ordering_key) IN (
          SELECT onceward.lane_of_letter(d), d.ordering_key
          FROM onceward.dead_letters d
          WHERE d.id = ANY (p_ids) AND d.status <> 'requeued' AND onceward.sees(d.tenant_id))
    ORDER BY f.id
    FOR UPDATE;
    v_now := clock_timestamp();
    RETURN QUERY
    WITH plan AS MATERIALIZED (
        SELECT *
        FROM onceward.plan_requeue(p_ids, p_force, p_first, p_delay_ms, p_step_us)),
    moved AS (
        DELETE FROM onceward.deferred f
        USING plan p
        WHERE f.id = p.aside
        RETURNING f.*, p.place),
    uncancelled AS (
        DELETE FROM onceward.cancelled k
        USING plan p
        JOIN onceward.dead_letters d ON d.id = p.id
        WHERE p.refusal IS NULL AND k.lane_id = d.lane_id AND k.seq = d.seq),
    unheld AS (
        DELETE FROM onceward.deferred f
        USING plan p
        WHERE f.dead_letter_id = p.id AND p.refusal IS NULL),
    put AS (
        INSERT INTO onceward.deferred (
            lane_id, queue_id, seq, state, due_at, blocks, attempts, first_error, last_error,
            first_failed_at, tenant_id, ordering_key, created_at, dead_letter_id, message)
        SELECT r.lane_id, r.queue_id, r.seq, r.state, r.due_at, r.blocks, r.attempts, r.first_error,
               r.last_error, r.first_failed_at, r.tenant_id, r.ordering_key, r.created_at, r.dead_letter_id,
               r.message
        FROM (
            SELECT l.id AS lane_id, l.queue_id, d.seq,
                   CASE WHEN p.wait_ms IS NULL THEN 'parked' ELSE 'retry' END AS state,
                   v_now + p.wait_ms * interval '1 ms' AS due_at,
                   d.ordering_key IS NOT NULL AS blocks,
                   0 AS attempts, NULL AS first_error, NULL AS last_error,
                   NULL::timestamptz AS first_failed_at,
                   l.tenant_id, d.ordering_key, v_now AS created_at, NULL::bigint AS dead_letter_id,
                   d.message, p.place
            FROM plan p
            JOIN onceward.dead_letters d ON d.id = p.id
            JOIN onceward.lane l ON l.id = p.lane_id
            WHERE p.refusal IS NULL AND NOT onceward.is_unread(d)
            UNION ALL
            SELECT m.lane_id, m.queue_id, m.seq,
                   CASE m.state WHEN 'held' THEN 'held' ELSE 'parked' END,
                   NULL,
                   true,
                   m.attempts, m.first_error, m.last_error, m.first_failed_at,
                   m.tenant_id, m.ordering_key, m.created_at, m.dead_letter_id, m.message,
                   m.place
            FROM moved m) r
        ORDER BY r.lane_id, r.ordering_key, r.place),
    marked AS (
        UPDATE onceward.dead_letters d SET status = 'requeued'
        FROM plan p
        WHERE d.id = p.id AND p.refusal IS NULL),
    noted AS (
        INSERT INTO onceward.dead_letter_act (
            dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, detail)
        SELECT p.id, p.tenant_id, p.queue, p.event_type, p.version, 'requeued', p_actor, p_why,
               jsonb_build_object(
                   'laneId', p.lane_id,
                   'waitMs', p.wait_ms,
                   'behind', p.wait_ms IS NULL,
                   'requeues', p.requeues)
        FROM plan p
        WHERE p.id IS NOT NULL AND p.refusal IS NULL
        ORDER BY p.nth)
    SELECT p.id, p.refusal, p.queue, p.tenant_id, p.event_id, p.event_type, p.version, p.ordering_key,
           p.requeues, p.lane_id, p.wait_ms
    FROM plan p
    WHERE p.id IS NOT NULL
    ORDER BY p.nth;
    SELECT array_agg(DISTINCT onceward.lane_of_letter(d)) INTO v_lanes
    FROM onceward.dead_letters d
    WHERE d.id = ANY (p_ids) AND d.status = 'requeued';
    PERFORM onceward.wake(v_lanes);
END
$$;
