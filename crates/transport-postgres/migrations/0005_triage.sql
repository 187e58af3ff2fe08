-- Triage: what people do with dead letters, and the history of it.
--
-- A letter is requeued into the lane it was taken from, as a message put aside that becomes due. It takes its old place in
-- the line of its key: behind what was published before it, in front of what was published after it, as far as that still
-- waits in onceward.deferred. Only a message that a worker holds under a lease cannot be overtaken. What the log still
-- holds of the key is younger than any letter and stands behind by itself.
--
-- Functions that read or change letters see all tenants from a transaction that has none, and only its own from one that has.

ALTER TABLE onceward.dead_letters
    ADD COLUMN lane_id     int,                        -- where it was taken from; NULL: by the queue's rules
    ADD COLUMN seq         bigint NOT NULL DEFAULT 0,  -- its number in the log; 0: it never had one
    ADD COLUMN occurred_at timestamptz,
    ADD COLUMN tag         text;                       -- why it is quarantined, in a word

CREATE INDEX dead_letters_by_time ON onceward.dead_letters (dead_at, id);
CREATE INDEX dead_letters_by_status ON onceward.dead_letters (status, dead_at, id);
CREATE INDEX dead_letters_by_type ON onceward.dead_letters (event_type, status, dead_at, id);
CREATE INDEX dead_letters_by_reason ON onceward.dead_letters (reason, status, dead_at, id);

-- When a stored message happened, if it says so in a way that PostgreSQL understands.
CREATE FUNCTION onceward.occurred(p_message jsonb) RETURNS timestamptz
    LANGUAGE sql STABLE
    AS $$ SELECT CASE WHEN p_message->>'occurred_at' ~ '^[0-9]{4}-' THEN (p_message->>'occurred_at')::timestamptz END $$;

UPDATE onceward.dead_letters SET occurred_at = onceward.occurred(message);

-- Who did what to a letter, and why. Only ever added to.
CREATE TABLE onceward.dead_letter_act (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dead_letter_id bigint      NOT NULL,
    act            text        NOT NULL CHECK (act IN ('requeued', 'quarantined', 'collected')),
    actor          text        NOT NULL CHECK (actor <> ''),
    why            text        NOT NULL CHECK (why <> ''),
    tag            text,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    detail         jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX dead_letter_act_by_letter ON onceward.dead_letter_act (dead_letter_id, id);

CREATE FUNCTION onceward.refuse_rewriting() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'the history in %.% is only added to', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'OW003';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON onceward.dead_letter_act
    FOR EACH STATEMENT EXECUTE FUNCTION onceward.refuse_rewriting();
ALTER TABLE onceward.dead_letter_act ENABLE ALWAYS TRIGGER append_only;

-- Forgets letters whose messages went back to their queues, once that is longer ago than p_retention; at most p_limit at once.
-- Nothing is lost by that: every other letter stays, and so does the history.
CREATE FUNCTION onceward.forget_letters(p_retention interval, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_before  timestamptz := clock_timestamp() - p_retention;
    v_letters bigint;
BEGIN
    DELETE FROM onceward.dead_letters WHERE id = ANY (ARRAY(
        SELECT d.id FROM onceward.dead_letters d
        WHERE d.status = 'requeued' AND d.dead_at < v_before
          AND NOT EXISTS (SELECT FROM onceward.dead_letter_act a WHERE a.dead_letter_id = d.id AND a.at >= v_before)
        LIMIT p_limit));
    GET DIAGNOSTICS v_letters = ROW_COUNT;
    RETURN v_letters;
END
$$;

-- Puts messages away for good. One that was taken under a lease is named by its row among those put aside.
CREATE OR REPLACE FUNCTION onceward.bury(p_rows jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.dead_letters (event_id, tenant_id, queue, consumer, dead_letter_exchange, event_type, version,
        ordering_key, correlation_id, reason, attempts, first_error, last_error, first_failed_at, message, lane_id, seq, occurred_at)
    SELECT r.event_id, r.tenant_id, r.queue, r.consumer, r.dead_letter_exchange, r.event_type, r.version, r.ordering_key,
        r.correlation_id, r.reason, r.attempts, r.first_error, r.last_error, r.first_failed_at, r.message,
        coalesce(r.lane_id, f.lane_id), coalesce(r.seq, f.seq, 0), onceward.occurred(r.message)
    FROM jsonb_to_recordset(p_rows) AS r(event_id uuid, tenant_id text, queue text, consumer text, dead_letter_exchange text,
        event_type text, version int, ordering_key text, correlation_id text, reason text, attempts int, first_error text,
        last_error text, first_failed_at timestamptz, message jsonb, lane_id int, seq bigint, deferred_id bigint)
    LEFT JOIN onceward.deferred f ON f.id = r.deferred_id
$$;

CREATE FUNCTION onceward.sees(p_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT coalesce(current_setting('onceward.tenant_id', true), '') IN ('', p_tenant) $$;

-- How often the letter's message was put back into the same queue before.
CREATE FUNCTION onceward.requeues(p_letter onceward.dead_letters) RETURNS int
    LANGUAGE sql STABLE
    AS $$
    SELECT count(*)::int FROM onceward.dead_letters b
    WHERE b.event_id = p_letter.event_id AND b.queue = p_letter.queue AND b.status = 'requeued' AND b.id < p_letter.id
$$;

-- Wakes the readers of these lanes when the transaction commits. A notification holds a few hundred numbers at most.
CREATE FUNCTION onceward.wake(p_lanes int[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT pg_notify('onceward_wake', string_agg(l.lane::text, ','))
    FROM (SELECT DISTINCT u.lane, dense_rank() OVER (ORDER BY u.lane) AS nth FROM unnest(p_lanes) AS u(lane)) l
    GROUP BY l.nth / 500
$$;

-- The filter within what the transaction sees.
CREATE FUNCTION onceward.own_filter(p_filter jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$ SELECT p_filter || jsonb_build_object('own', nullif(current_setting('onceward.tenant_id', true), '')) $$;

-- The letters that pass a filter; what it does not name is not asked for. Made to be inlined: the indexes do the work.
CREATE FUNCTION onceward.dead_letters_like(p_filter jsonb) RETURNS SETOF onceward.dead_letters
    LANGUAGE sql STABLE
    AS $$
    SELECT d.* FROM onceward.dead_letters d
    WHERE (p_filter->>'status' IS NULL OR d.status = p_filter->>'status')
      AND (p_filter->>'queue' IS NULL OR d.queue = p_filter->>'queue')
      AND (p_filter->>'tenant' IS NULL OR d.tenant_id = p_filter->>'tenant')
      AND (p_filter->>'event_type' IS NULL OR d.event_type = p_filter->>'event_type')
      AND (p_filter->>'version' IS NULL OR d.version = (p_filter->>'version')::int)
      AND (p_filter->>'reason' IS NULL OR d.reason = p_filter->>'reason')
      AND (p_filter->>'event_id' IS NULL OR d.event_id = (p_filter->>'event_id')::uuid)
      AND (p_filter->>'older_ms' IS NULL OR d.dead_at < statement_timestamp() - (p_filter->>'older_ms')::bigint * interval '1 ms')
      AND (p_filter->>'newer_ms' IS NULL OR d.dead_at >= statement_timestamp() - (p_filter->>'newer_ms')::bigint * interval '1 ms')
      AND (p_filter->>'own' IS NULL OR d.tenant_id = p_filter->>'own')
$$;

-- A page of letters, the latest first, from behind the letter p_after.
CREATE FUNCTION onceward.find_dead_letters(p_filter jsonb, p_after bigint, p_limit int)
    RETURNS TABLE (id bigint, dead_at timestamptz, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        correlation_id text, reason text, attempts int, last_error text, status text, tag text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
DECLARE
    v_filter jsonb := onceward.own_filter(p_filter);
    v_after  timestamptz;
BEGIN
    IF p_after IS NULL THEN
        RETURN QUERY
        SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.correlation_id, d.reason,
               d.attempts, d.last_error, d.status, d.tag
        FROM onceward.dead_letters_like(v_filter) d ORDER BY d.dead_at DESC, d.id DESC LIMIT p_limit;
        RETURN;
    END IF;
    SELECT a.dead_at INTO v_after FROM onceward.dead_letters a WHERE a.id = p_after AND onceward.sees(a.tenant_id);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dead letter %', p_after USING ERRCODE = 'OW002';
    END IF;
    RETURN QUERY
    SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.correlation_id, d.reason,
           d.attempts, d.last_error, d.status, d.tag
    FROM onceward.dead_letters_like(v_filter) d WHERE (d.dead_at, d.id) < (v_after, p_after)
    ORDER BY d.dead_at DESC, d.id DESC LIMIT p_limit;
END
$$;

-- Whole letters, in the order in which they are asked for, and how often each message was requeued before it died this time.
CREATE FUNCTION onceward.dead_letters_in_full(p_ids bigint[])
    RETURNS TABLE (id bigint, dead_at timestamptz, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        correlation_id text, reason text, attempts int, last_error text, status text, tag text,
        consumer text, dead_letter_exchange text, first_error text, first_failed_at timestamptz, requeues int, message jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.correlation_id, d.reason,
           d.attempts, d.last_error, d.status, d.tag, d.consumer, d.dead_letter_exchange, d.first_error, d.first_failed_at,
           onceward.requeues(d), d.message
    FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth) JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)
    ORDER BY a.nth
$$;

-- What was done to letters, the latest first; to one of them, or to all.
CREATE FUNCTION onceward.dead_letter_acts(p_letter bigint, p_before bigint, p_limit int)
    RETURNS TABLE (id bigint, dead_letter_id bigint, act text, actor text, why text, tag text, at timestamptz, detail jsonb,
        queue text, tenant_id text, event_type text, version int)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
BEGIN
    RETURN QUERY
    SELECT a.id, a.dead_letter_id, a.act, a.actor, a.why, a.tag, a.at, a.detail, d.queue, d.tenant_id, d.event_type, d.version
    FROM onceward.dead_letter_act a JOIN onceward.dead_letters d ON d.id = a.dead_letter_id AND onceward.sees(d.tenant_id)
    WHERE (p_letter IS NULL OR a.dead_letter_id = p_letter) AND (p_before IS NULL OR a.id < p_before)
    ORDER BY a.id DESC LIMIT p_limit;
END
$$;

-- The ids of letters that pass a filter, of all or of these, in the order in which their messages were published: by number in the log, and those
-- without one by their time. The running maximum makes times follow the numbers, which are right where they differ.
CREATE FUNCTION onceward.dead_letters_in_order(p_ids bigint[], p_filter jsonb, p_limit int) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
DECLARE
    v_filter jsonb := onceward.own_filter(p_filter);
BEGIN
    RETURN QUERY
    SELECT o.id FROM (
        SELECT d.id, d.seq, d.event_id, max(coalesce(d.occurred_at, d.dead_at)) OVER (
                   PARTITION BY d.queue, d.tenant_id, d.ordering_key, d.seq > 0
                   ORDER BY d.seq, coalesce(d.occurred_at, d.dead_at), d.event_id ROWS UNBOUNDED PRECEDING) AS at
        FROM onceward.dead_letters_like(v_filter) d WHERE p_ids IS NULL OR d.id = ANY (p_ids)) o
    ORDER BY o.at, o.seq, o.event_id, o.id LIMIT p_limit;
END
$$;

-- A message that came without an id, or whose columns could not be read, can be looked at and nothing else.
CREATE FUNCTION onceward.is_readable(p_message jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT p_message ? 'id' AND p_message ? 'payload' AND NOT p_message ? 'tenant_id' $$;

CREATE FUNCTION onceward.shard_of_letter(p_letter onceward.dead_letters, p_shards int) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (('x' || encode(substring(onceward.scoped_hash(p_letter.tenant_id, coalesce(p_letter.ordering_key, p_letter.event_id::text))
                                     FROM 1 FOR 4), 'hex'))::bit(32)::bigint % p_shards)::smallint
$$;

-- The lane that a letter belongs to; NULL: it has not been made yet, or the queue is not declared.
CREATE FUNCTION onceward.lane_of_letter(p_letter onceward.dead_letters) RETURNS int
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(p_letter.lane_id, (
        SELECT l.id FROM onceward.queue q JOIN onceward.lane l ON l.queue_id = q.id AND l.tenant_id = p_letter.tenant_id
            AND l.priority = 0 AND l.shard = onceward.shard_of_letter(p_letter, q.shards)
        WHERE q.name = p_letter.queue))
$$;

-- What requeuing these letters would do, in the order of p_ids. A letter that is the first of its key becomes due, after
-- p_delay_ms and p_step_us for each before it, beginning to count at p_first; one that was requeued n times before waits another
-- 2^n seconds, a minute at most. The others are behind: they have no wait of their own. Rows with an `aside` are messages that
-- wait already and that now have a letter in front of them.
CREATE FUNCTION onceward.plan_requeue(p_ids bigint[], p_force boolean, p_first bigint, p_delay_ms bigint, p_step_us bigint)
    RETURNS TABLE (id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        requeues int, lane_id int, wait_ms bigint, aside bigint, place bigint, nth bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH asked AS MATERIALIZED (
        SELECT a.nth, a.id, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.seq,
               coalesce(d.occurred_at, d.dead_at) AS at, onceward.requeues(d) AS requeues, onceward.lane_of_letter(d) AS lane_id,
               CASE WHEN d.id IS NULL THEN 'missing'
                    WHEN d.status = 'requeued' THEN 'requeued'
                    WHEN d.status = 'quarantined' AND NOT p_force THEN 'quarantined'
                    WHEN NOT EXISTS (SELECT FROM onceward.queue q WHERE q.name = d.queue) THEN 'no_queue'
                    WHEN NOT onceward.is_readable(d.message) THEN 'unreadable' END AS refusal
        FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth)
        LEFT JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)),
    line AS (
        SELECT a.id AS letter, NULL::bigint AS aside, coalesce(a.lane_id::text, a.queue || '/' || a.tenant_id) AS home, a.ordering_key,
               a.seq, a.at, a.event_id
        FROM asked a WHERE a.refusal IS NULL AND a.ordering_key IS NOT NULL
        UNION ALL
        SELECT NULL, f.id, f.lane_id::text, f.ordering_key, f.seq, coalesce(onceward.occurred(f.message), f.created_at),
               (f.message->>'id')::uuid
        FROM (SELECT DISTINCT a.lane_id, a.ordering_key FROM asked a WHERE a.refusal IS NULL) k
        JOIN onceward.deferred f ON f.lane_id = k.lane_id AND f.ordering_key = k.ordering_key AND f.blocks AND f.state <> 'leased'),
    timed AS (
        SELECT l.*, max(l.at) OVER (PARTITION BY l.home, l.ordering_key, l.seq > 0
                                    ORDER BY l.seq, l.at, l.event_id ROWS UNBOUNDED PRECEDING) AS follows
        FROM line l),
    placed AS (
        SELECT t.letter, t.aside, row_number() OVER w AS place,
               coalesce(bool_or(t.letter IS NOT NULL) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false) AS behind_letter
        FROM timed t WINDOW w AS (PARTITION BY t.home, t.ordering_key ORDER BY t.follows, t.seq, t.event_id, t.aside, t.letter)),
    judged AS (
        SELECT a.*, p.place, a.refusal IS NULL AND coalesce(p.place, 1) = 1 AND NOT EXISTS (
                   SELECT FROM onceward.deferred f WHERE f.lane_id = a.lane_id AND f.ordering_key = a.ordering_key AND f.blocks
                   AND f.state = 'leased') AS is_first
        FROM asked a LEFT JOIN placed p ON p.letter = a.id)
    SELECT j.id, j.refusal, j.queue, j.tenant_id, j.event_id, j.event_type, j.version, j.ordering_key, j.requeues, j.lane_id,
           CASE WHEN j.is_first THEN
               p_delay_ms + (p_first + count(*) FILTER (WHERE j.is_first) OVER (ORDER BY j.nth) - 1) * p_step_us / 1000
               + CASE WHEN j.requeues > 0 THEN least(60, 2 ^ least(j.requeues, 6))::bigint * 1000 ELSE 0 END END,
           NULL::bigint, j.place, j.nth
    FROM judged j
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, p.aside, p.place, NULL
    FROM placed p WHERE p.aside IS NOT NULL AND p.behind_letter
    ORDER BY 14
$$;

-- Requeues letters and says what became of each. Nobody takes a turn in their lanes meanwhile: the lanes are locked, letters
-- first and both in one order for everybody, and so are the messages that wait, because a lease may be given back at any time.
CREATE FUNCTION onceward.requeue(p_ids bigint[], p_force boolean, p_first bigint, p_delay_ms bigint, p_step_us bigint, p_actor text, p_why text)
    RETURNS TABLE (id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        requeues int, lane_id int, wait_ms bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_lanes int[];
    v_now   timestamptz;
BEGIN
    PERFORM set_config('lock_timeout', '10s', true);
    PERFORM FROM onceward.dead_letters d WHERE d.id = ANY (p_ids) AND onceward.sees(d.tenant_id) ORDER BY d.id FOR UPDATE;
    PERFORM onceward.lane_of(n.queue_id, n.tenant_id, 0::smallint, n.shard)
    FROM (SELECT DISTINCT q.id AS queue_id, d.tenant_id, onceward.shard_of_letter(d, q.shards) AS shard
          FROM onceward.dead_letters d JOIN onceward.queue q ON q.name = d.queue
          WHERE d.id = ANY (p_ids) AND d.lane_id IS NULL AND onceward.is_readable(d.message) AND onceward.sees(d.tenant_id)
          ORDER BY 1, 2, 3) n;
    PERFORM pg_advisory_xact_lock(19012, k.lane_id)
    FROM (SELECT DISTINCT onceward.lane_of_letter(d) AS lane_id FROM onceward.dead_letters d
          WHERE d.id = ANY (p_ids) AND d.status <> 'requeued' AND d.ordering_key IS NOT NULL AND onceward.sees(d.tenant_id)
          ORDER BY 1) k
    WHERE k.lane_id IS NOT NULL;
    PERFORM FROM onceward.deferred f
    WHERE f.blocks AND (f.lane_id, f.ordering_key) IN (
        SELECT onceward.lane_of_letter(d), d.ordering_key FROM onceward.dead_letters d
        WHERE d.id = ANY (p_ids) AND d.status <> 'requeued' AND onceward.sees(d.tenant_id))
    ORDER BY f.id FOR UPDATE;
    v_now := clock_timestamp();
    RETURN QUERY
    WITH plan AS MATERIALIZED (SELECT * FROM onceward.plan_requeue(p_ids, p_force, p_first, p_delay_ms, p_step_us)),
    moved AS (DELETE FROM onceward.deferred f USING plan p WHERE f.id = p.aside RETURNING f.*, p.place),
    put AS (
        INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, due_at, blocks, attempts, first_error, last_error,
            first_failed_at, tenant_id, ordering_key, created_at, message)
        SELECT r.lane_id, r.queue_id, r.seq, r.state, r.due_at, r.blocks, r.attempts, r.first_error, r.last_error,
               r.first_failed_at, r.tenant_id, r.ordering_key, r.created_at, r.message
        FROM (
            SELECT l.id AS lane_id, l.queue_id, d.seq, CASE WHEN p.wait_ms IS NULL THEN 'parked' ELSE 'retry' END AS state,
                   v_now + p.wait_ms * interval '1 ms' AS due_at, d.ordering_key IS NOT NULL AS blocks, 0 AS attempts, NULL AS first_error,
                   NULL AS last_error, NULL::timestamptz AS first_failed_at, l.tenant_id, d.ordering_key, v_now AS created_at, d.message, p.place
            FROM plan p JOIN onceward.dead_letters d ON d.id = p.id JOIN onceward.lane l ON l.id = p.lane_id
            WHERE p.refusal IS NULL
            UNION ALL
            SELECT m.lane_id, m.queue_id, m.seq, 'parked', NULL, true, m.attempts, m.first_error, m.last_error, m.first_failed_at,
                   m.tenant_id, m.ordering_key, m.created_at, m.message, m.place
            FROM moved m) r
        ORDER BY r.lane_id, r.ordering_key, r.place),
    marked AS (UPDATE onceward.dead_letters d SET status = 'requeued' FROM plan p WHERE d.id = p.id AND p.refusal IS NULL),
    noted AS (
        INSERT INTO onceward.dead_letter_act (dead_letter_id, act, actor, why, detail)
        SELECT p.id, 'requeued', p_actor, p_why,
               jsonb_build_object('laneId', p.lane_id, 'waitMs', p.wait_ms, 'behind', p.wait_ms IS NULL, 'requeues', p.requeues)
        FROM plan p WHERE p.id IS NOT NULL AND p.refusal IS NULL ORDER BY p.nth)
    SELECT p.id, p.refusal, p.queue, p.tenant_id, p.event_id, p.event_type, p.version, p.ordering_key, p.requeues, p.lane_id, p.wait_ms
    FROM plan p WHERE p.id IS NOT NULL ORDER BY p.nth;
    SELECT array_agg(DISTINCT onceward.lane_of_letter(d)) INTO v_lanes FROM onceward.dead_letters d
    WHERE d.id = ANY (p_ids) AND d.status = 'requeued';
    PERFORM onceward.wake(v_lanes);
END
$$;

-- Takes letters out of the way under a tag and says what became of each.
CREATE FUNCTION onceward.quarantine(p_ids bigint[], p_tag text, p_actor text, p_why text)
    RETURNS TABLE (id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('lock_timeout', '10s', true);
    PERFORM FROM onceward.dead_letters d WHERE d.id = ANY (p_ids) AND onceward.sees(d.tenant_id) ORDER BY d.id FOR UPDATE;
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.nth, a.id, CASE WHEN d.id IS NULL THEN 'missing' WHEN d.status <> 'dead' THEN d.status END AS refusal,
               d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key
        FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth)
        LEFT JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)),
    marked AS (UPDATE onceward.dead_letters d SET status = 'quarantined', tag = p_tag FROM asked a WHERE d.id = a.id AND a.refusal IS NULL),
    noted AS (
        INSERT INTO onceward.dead_letter_act (dead_letter_id, act, actor, why, tag)
        SELECT a.id, 'quarantined', p_actor, p_why, p_tag FROM asked a WHERE a.refusal IS NULL ORDER BY a.nth)
    SELECT a.id, a.refusal, a.queue, a.tenant_id, a.event_id, a.event_type, a.version, a.ordering_key FROM asked a ORDER BY a.nth;
END
$$;

-- Takes in a message that an external bus had put away by itself, unless it came home before; gives the letter's id. What has
-- landed or was collected is known by the same inbox row, so that no way home leads to a second handling.
CREATE FUNCTION onceward.collect(p_letter jsonb, p_key text, p_actor text, p_why text, p_detail jsonb) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_id bigint;
BEGIN
    IF NOT onceward.record_inbox(p_letter->>'tenant_id', p_key, p_letter->>'consumer') THEN
        RETURN NULL;
    END IF;
    PERFORM onceward.bury(jsonb_build_array(p_letter));
    v_id := currval(pg_get_serial_sequence('onceward.dead_letters', 'id'));
    INSERT INTO onceward.dead_letter_act (dead_letter_id, act, actor, why, detail) VALUES (v_id, 'collected', p_actor, p_why, p_detail);
    RETURN v_id;
END
$$;

-- What waits in the outbox beside its lanes: put aside in all, refused by the bus, why, and for how long. At most p_sample of a kind are counted.
CREATE FUNCTION onceward.outbox_aside(p_sample int)
    RETURNS TABLE (put_aside bigint, oldest_seconds double precision, refused bigint, next_due_ms bigint, last_error text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH outbox AS (SELECT q.id FROM onceward.queue q WHERE q.name = '@outbox'),
    due AS (SELECT d.created_at, d.due_at, d.last_error FROM onceward.deferred d, outbox o
            WHERE d.queue_id = o.id AND d.due_at IS NOT NULL ORDER BY d.due_at LIMIT p_sample),
    parked AS (SELECT d.created_at FROM onceward.lane l JOIN outbox o ON l.queue_id = o.id
               JOIN onceward.deferred d ON d.lane_id = l.id AND d.ordering_key IS NOT NULL AND d.blocks AND d.due_at IS NULL LIMIT p_sample)
    SELECT (SELECT count(*) FROM due) + (SELECT count(*) FROM parked),
           coalesce(extract(epoch FROM clock_timestamp()
               - least((SELECT min(d.created_at) FROM due d), (SELECT min(p.created_at) FROM parked p))), 0)::double precision,
           (SELECT count(*) FROM due d WHERE d.last_error IS NOT NULL),
           onceward.next_due_ms((SELECT o.id FROM outbox o)),
           (SELECT d.last_error FROM due d WHERE d.last_error IS NOT NULL ORDER BY d.due_at LIMIT 1)
$$;

-- Messages that the bus refused are offered again now; all, or one event's. Gives how many.
CREATE FUNCTION onceward.retry_outbox(p_event uuid, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
DECLARE
    v_lanes int[];
    v_count bigint;
BEGIN
    WITH hurried AS (
        UPDATE onceward.deferred d SET due_at = clock_timestamp()
        WHERE d.id = ANY (ARRAY(
                SELECT w.id FROM onceward.deferred w
                WHERE w.queue_id = (SELECT q.id FROM onceward.queue q WHERE q.name = '@outbox') AND w.due_at > clock_timestamp()
                  AND (p_event IS NULL OR (w.message->>'id')::uuid = p_event) AND w.state = 'retry' AND onceward.sees(w.tenant_id)
                ORDER BY w.due_at LIMIT p_limit))
          AND d.state = 'retry'
        RETURNING d.lane_id)
    SELECT count(*), array_agg(h.lane_id) INTO v_count, v_lanes FROM hurried h;
    PERFORM onceward.wake(v_lanes);
    RETURN v_count;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA onceward FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA onceward TO onceward_app;
