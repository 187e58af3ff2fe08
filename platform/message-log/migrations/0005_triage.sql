-- Triage: what operators do with dead letters, and the history of these actions.
--
-- A letter is requeued into the lane it was taken from, as a deferred message that becomes due. It takes its old place in the
-- order of its key: behind messages published before it and ahead of messages published after it, as far as they still wait in
-- onceward.deferred. Only a message that a worker holds under a lease cannot be overtaken. Messages of the key that are still
-- unread in the log are younger than any letter and follow it anyway. The exception is a message that was cancelled and that no turn
-- has passed yet: it is still in the log, and is requeued by forgetting that it was cancelled.
--
-- A letter that holds its key has a row in onceward.deferred, in the state `held`. Requeuing the letter deletes that row.
--
-- Functions that read or change letters see all tenants from a transaction that has none, and only its own from one that has.

ALTER TABLE onceward.dead_letters
    ADD COLUMN lane_id     int,                        -- where it was taken from; NULL: determined by the queue's rules
    ADD COLUMN seq         bigint NOT NULL DEFAULT 0,  -- its number in the log; 0 if it never had one
    ADD COLUMN occurred_at timestamptz,
    ADD COLUMN tag         text;                       -- why it is quarantined, as one word

CREATE INDEX dead_letters_by_time ON onceward.dead_letters (dead_at, id);
CREATE INDEX dead_letters_by_status ON onceward.dead_letters (status, dead_at, id);
CREATE INDEX dead_letters_by_type ON onceward.dead_letters (event_type, status, dead_at, id);
CREATE INDEX dead_letters_by_reason ON onceward.dead_letters (reason, status, dead_at, id);

-- The time of a stored message's event, if PostgreSQL can parse it.
CREATE FUNCTION onceward.occurred(p_message jsonb) RETURNS timestamptz
    LANGUAGE sql STABLE
    AS $$ SELECT CASE WHEN p_message->>'occurred_at' ~ '^[0-9]{4}-' THEN (p_message->>'occurred_at')::timestamptz END $$;

UPDATE onceward.dead_letters SET occurred_at = onceward.occurred(message);

-- The actions on letters: who, what and why. Append-only.
CREATE TABLE onceward.dead_letter_act (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dead_letter_id bigint      NOT NULL,
    tenant_id      text        NOT NULL,               -- of the letter, which may be deleted before its history, like the next three
    queue          text        NOT NULL,
    event_type     text        NOT NULL,
    version        int         NOT NULL,
    act            text        NOT NULL CHECK (act IN ('requeued', 'quarantined', 'collected', 'released', 'cancelled')),
    actor          text        NOT NULL CHECK (actor <> ''),
    why            text        NOT NULL CHECK (why <> ''),
    tag            text,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    detail         jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX dead_letter_act_by_letter ON onceward.dead_letter_act (dead_letter_id, id);
CREATE INDEX dead_letter_act_by_tenant ON onceward.dead_letter_act (tenant_id, id);
SELECT onceward_meta.protect('onceward.dead_letter_act', '');

CREATE FUNCTION onceward.refuse_rewriting() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'the history in %.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'OW003';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON onceward.dead_letter_act
    FOR EACH STATEMENT EXECUTE FUNCTION onceward.refuse_rewriting();
ALTER TABLE onceward.dead_letter_act ENABLE ALWAYS TRIGGER append_only;

-- Deletes letters that were requeued longer ago than p_retention, at most p_limit of them. Nothing is lost by that: all other letters
-- stay, and so does the history.
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

-- The failed attempts of a message in a queue, oldest first.
CREATE FUNCTION onceward.attempt_log(p_event uuid, p_queue text) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('attempt', a.attempt, 'at', a.at, 'error', a.error) ORDER BY a.at, a.slot), '[]')
    FROM onceward.failed_attempt a
    WHERE a.event_id = p_event AND a.queue = p_queue
$$;

-- Records failed attempts. After the nineteenth only the latest is kept, so that the cost of an endlessly retried message is bounded.
CREATE FUNCTION onceward.note_attempts(p_rows jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.failed_attempt AS a (event_id, queue, slot, attempt, at, error, tenant_id)
    SELECT DISTINCT ON (r.event_id, r.queue) r.event_id, r.queue, least(r.attempt, 20), r.attempt, clock_timestamp(), left(r.error, 500),
           r.tenant_id
    FROM jsonb_to_recordset(p_rows) AS r(event_id uuid, queue text, attempt int, error text, tenant_id text)
    ORDER BY r.event_id, r.queue, r.attempt DESC
    ON CONFLICT (event_id, queue, slot) DO UPDATE SET attempt = EXCLUDED.attempt, at = EXCLUDED.at, error = EXCLUDED.error
$$;

-- Deletes attempts from before the beginning of the log, at most p_limit of them. Returns their number. Letters have their own copy.
CREATE FUNCTION onceward.forget_attempts(p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_gone bigint;
BEGIN
    DELETE FROM onceward.failed_attempt
    WHERE ctid = ANY (ARRAY(
        SELECT a.ctid
        FROM onceward.failed_attempt a
        WHERE a.at < (SELECT min(e.opened_at) FROM onceward.log_epoch e)
        LIMIT p_limit));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_gone;
END
$$;

-- Inserts dead letters. A message that was leased is identified by its deferred row. The row of a letter that holds its key was
-- written before, in the same transaction, and now gets the letter's number.
CREATE OR REPLACE FUNCTION onceward.bury(p_rows jsonb) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH buried AS (
        INSERT INTO onceward.dead_letters (event_id, tenant_id, queue, consumer, dead_letter_exchange, event_type, version,
            ordering_key, correlation_id, reason, attempts, first_error, last_error, first_failed_at, message, lane_id, seq, occurred_at,
            attempt_log)
        SELECT r.event_id, r.tenant_id, r.queue, r.consumer, r.dead_letter_exchange, r.event_type, r.version, r.ordering_key,
            r.correlation_id, r.reason, r.attempts, r.first_error, r.last_error, r.first_failed_at, r.message,
            coalesce(r.lane_id, f.lane_id), coalesce(r.seq, f.seq, 0), onceward.occurred(r.message),
            onceward.attempt_log(r.event_id, r.queue)
        FROM jsonb_to_recordset(p_rows) AS r(event_id uuid, tenant_id text, queue text, consumer text, dead_letter_exchange text,
            event_type text, version int, ordering_key text, correlation_id text, reason text, attempts int, first_error text,
            last_error text, first_failed_at timestamptz, message jsonb, lane_id int, seq bigint, deferred_id bigint)
        LEFT JOIN onceward.deferred f ON f.id = r.deferred_id
        RETURNING id, event_id, lane_id)
    UPDATE onceward.deferred h
    SET dead_letter_id = held.letter
    FROM (
        SELECT b.id AS letter, f.id
        FROM buried b
        CROSS JOIN LATERAL (
            SELECT f.id
            FROM onceward.deferred f
            WHERE (f.message->>'id')::uuid = b.event_id
              AND f.lane_id = b.lane_id
              AND f.state = 'held'
              AND f.dead_letter_id IS NULL
            OFFSET 0) f) held
    WHERE h.id = held.id
$$;

-- Returns whether a letter holds its key.
CREATE FUNCTION onceward.holds_key(p_letter bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT EXISTS (SELECT FROM onceward.deferred h WHERE h.dead_letter_id = p_letter) $$;

-- How many messages wait behind a letter that holds its key; NULL if it does not hold it.
CREATE FUNCTION onceward.followers(p_letter bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT (SELECT count(*)
            FROM onceward.deferred f
            WHERE f.lane_id = h.lane_id
              AND f.ordering_key = h.ordering_key
              AND f.blocks
              AND f.state = 'parked')
    FROM onceward.deferred h
    WHERE h.dead_letter_id = p_letter
$$;

CREATE FUNCTION onceward.sees(p_tenant text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT coalesce(current_setting('onceward.tenant_id', true), '') IN ('', p_tenant) $$;

-- How often the letter's message was requeued into the same queue before.
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

-- The filter, restricted to the letters that the transaction can see.
CREATE FUNCTION onceward.own_filter(p_filter jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$ SELECT p_filter || jsonb_build_object('own', nullif(current_setting('onceward.tenant_id', true), '')) $$;

-- The letters that match a filter; members that it omits do not restrict it. Written to be inlined, so that indexes are used.
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
      AND (p_filter->>'holds_key' IS NULL OR onceward.holds_key(d.id) = (p_filter->>'holds_key')::boolean)
      AND (p_filter->>'older_ms' IS NULL OR d.dead_at < statement_timestamp() - (p_filter->>'older_ms')::bigint * interval '1 ms')
      AND (p_filter->>'newer_ms' IS NULL OR d.dead_at >= statement_timestamp() - (p_filter->>'newer_ms')::bigint * interval '1 ms')
      AND (p_filter->>'own' IS NULL OR d.tenant_id = p_filter->>'own')
$$;

-- A page of letters, the latest first, after the letter p_after.
CREATE FUNCTION onceward.find_dead_letters(p_filter jsonb, p_after bigint, p_limit int)
    RETURNS TABLE (id bigint, dead_at timestamptz, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        correlation_id text, reason text, attempts int, last_error text, status text, tag text, holds_key boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
DECLARE
    v_filter jsonb := onceward.own_filter(p_filter);
    v_after  timestamptz;
BEGIN
    IF p_after IS NULL THEN
        RETURN QUERY
        SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.correlation_id, d.reason,
               d.attempts, d.last_error, d.status, d.tag, onceward.holds_key(d.id)
        FROM onceward.dead_letters_like(v_filter) d ORDER BY d.dead_at DESC, d.id DESC LIMIT p_limit;
        RETURN;
    END IF;
    SELECT a.dead_at INTO v_after FROM onceward.dead_letters a WHERE a.id = p_after AND onceward.sees(a.tenant_id);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no dead letter %', p_after USING ERRCODE = 'OW002';
    END IF;
    RETURN QUERY
    SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.correlation_id, d.reason,
           d.attempts, d.last_error, d.status, d.tag, onceward.holds_key(d.id)
    FROM onceward.dead_letters_like(v_filter) d WHERE (d.dead_at, d.id) < (v_after, p_after)
    ORDER BY d.dead_at DESC, d.id DESC LIMIT p_limit;
END
$$;

-- Complete letters in the order of p_ids, and how often each message was requeued before it died this time.
CREATE FUNCTION onceward.dead_letters_in_full(p_ids bigint[])
    RETURNS TABLE (id bigint, dead_at timestamptz, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        correlation_id text, reason text, attempts int, last_error text, status text, tag text, holds_key boolean,
        consumer text, dead_letter_exchange text, first_error text, first_failed_at timestamptz, requeues int, message jsonb,
        attempt_log jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT d.id, d.dead_at, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.correlation_id, d.reason,
           d.attempts, d.last_error, d.status, d.tag, onceward.holds_key(d.id), d.consumer, d.dead_letter_exchange, d.first_error, d.first_failed_at,
           onceward.requeues(d), d.message, d.attempt_log
    FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth) JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)
    ORDER BY a.nth
$$;

-- The actions on one letter or on all, the latest first; including letters that were deleted.
CREATE FUNCTION onceward.dead_letter_acts(p_letter bigint, p_before bigint, p_limit int)
    RETURNS TABLE (id bigint, dead_letter_id bigint, act text, actor text, why text, tag text, at timestamptz, detail jsonb,
        queue text, tenant_id text, event_type text, version int)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
    AS $$
BEGIN
    RETURN QUERY
    SELECT a.id, a.dead_letter_id, a.act, a.actor, a.why, a.tag, a.at, a.detail, a.queue, a.tenant_id, a.event_type, a.version
    FROM onceward.dead_letter_act a
    WHERE onceward.sees(a.tenant_id) AND (p_letter IS NULL OR a.dead_letter_id = p_letter) AND (p_before IS NULL OR a.id < p_before)
    ORDER BY a.id DESC LIMIT p_limit;
END
$$;

-- The ids of letters that match a filter, of all or of these, in the order in which their messages were published: by number in the log, and
-- those without one by their time. The running maximum makes times follow the numbers, which are correct where they differ.
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

-- A message that arrived without an id, or whose columns could not be read, can only be viewed.
CREATE FUNCTION onceward.is_readable(p_message jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT p_message ? 'id' AND p_message ? 'payload' AND NOT p_message ? 'tenant_id' $$;

CREATE FUNCTION onceward.shard_of_letter(p_letter onceward.dead_letters, p_shards int) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (('x' || encode(substring(onceward.scoped_hash(p_letter.tenant_id, coalesce(p_letter.ordering_key, p_letter.event_id::text))
                                     FROM 1 FOR 4), 'hex'))::bit(32)::bigint % p_shards)::smallint
$$;

-- The lane that a letter belongs to; NULL if it does not exist yet, or the queue is not declared.
CREATE FUNCTION onceward.lane_of_letter(p_letter onceward.dead_letters) RETURNS int
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(p_letter.lane_id, (
        SELECT l.id FROM onceward.queue q JOIN onceward.lane l ON l.queue_id = q.id AND l.tenant_id = p_letter.tenant_id
            AND l.priority = 0 AND l.shard = onceward.shard_of_letter(p_letter, q.shards)
        WHERE q.name = p_letter.queue))
$$;

-- Returns whether the letter's message was cancelled and is still unread in the log.
CREATE FUNCTION onceward.is_unread(p_letter onceward.dead_letters) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT p_letter.reason = 'cancelled'
       AND EXISTS (SELECT FROM onceward.cancelled k WHERE k.lane_id = p_letter.lane_id AND k.seq = p_letter.seq)
$$;

-- What requeuing these letters would do, in the order of p_ids. A letter that is the first of its key becomes due after p_delay_ms
-- plus p_step_us for each letter before it, counting from p_first; one that was requeued n times before waits another 2^n seconds,
-- at most a minute. The others wait behind it and have no wait of their own. Rows with an `aside` are messages that already wait
-- and that now have a letter ahead of them.
CREATE FUNCTION onceward.plan_requeue(p_ids bigint[], p_force boolean, p_first bigint, p_delay_ms bigint, p_step_us bigint)
    RETURNS TABLE (id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        requeues int, lane_id int, wait_ms bigint, aside bigint, place bigint, nth bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH asked AS MATERIALIZED (
        SELECT a.nth, a.id, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key, d.seq,
               coalesce(d.occurred_at, d.dead_at) AS at, onceward.requeues(d) AS requeues, onceward.lane_of_letter(d) AS lane_id,
               onceward.is_unread(d) AS is_unread,
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
        FROM asked a WHERE a.refusal IS NULL AND a.ordering_key IS NOT NULL AND NOT a.is_unread
        UNION ALL
        SELECT NULL, f.id, f.lane_id::text, f.ordering_key, f.seq, coalesce(onceward.occurred(f.message), f.created_at),
               (f.message->>'id')::uuid
        FROM (SELECT DISTINCT a.lane_id, a.ordering_key FROM asked a WHERE a.refusal IS NULL) k
        JOIN onceward.deferred f ON f.lane_id = k.lane_id AND f.ordering_key = k.ordering_key AND f.blocks AND f.state <> 'leased'
        -- The row with which one of these letters holds its key is replaced by its message.
        WHERE NOT EXISTS (SELECT FROM asked a WHERE a.id = f.dead_letter_id AND a.refusal IS NULL)),
    timed AS (
        SELECT l.*, max(l.at) OVER (PARTITION BY l.home, l.ordering_key, l.seq > 0
                                    ORDER BY l.seq, l.at, l.event_id ROWS UNBOUNDED PRECEDING) AS follows
        FROM line l),
    placed AS (
        SELECT t.letter, t.aside, row_number() OVER w AS place,
               coalesce(bool_or(t.letter IS NOT NULL) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false) AS behind_letter
        FROM timed t WINDOW w AS (PARTITION BY t.home, t.ordering_key ORDER BY t.follows, t.seq, t.event_id, t.aside, t.letter)),
    judged AS (
        SELECT a.*, p.place, a.refusal IS NULL AND NOT a.is_unread AND coalesce(p.place, 1) = 1 AND NOT EXISTS (
                   SELECT FROM onceward.deferred f WHERE f.lane_id = a.lane_id AND f.ordering_key = a.ordering_key AND f.blocks
                   AND f.state = 'leased') AS is_first
        FROM asked a LEFT JOIN placed p ON p.letter = a.id)
    SELECT j.id, j.refusal, j.queue, j.tenant_id, j.event_id, j.event_type, j.version, j.ordering_key, j.requeues, j.lane_id,
           CASE WHEN j.is_unread THEN 0
                WHEN j.is_first THEN
               p_delay_ms + (p_first + count(*) FILTER (WHERE j.is_first) OVER (ORDER BY j.nth) - 1) * p_step_us / 1000
               + CASE WHEN j.requeues > 0 THEN least(60, 2 ^ least(j.requeues, 6))::bigint * 1000 ELSE 0 END END,
           NULL::bigint, j.place, j.nth
    FROM judged j
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, p.aside, p.place, NULL
    FROM placed p WHERE p.aside IS NOT NULL AND p.behind_letter
    ORDER BY 14
$$;

-- Requeues letters and returns the outcome of each. No worker takes a turn in their lanes meanwhile: letters and then lanes are
-- locked, each in the same order for every caller, and so are the waiting messages, because a lease may be returned at any time.
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
          WHERE d.id = ANY (p_ids) AND d.status <> 'requeued' AND (d.ordering_key IS NOT NULL OR d.reason = 'cancelled')
            AND onceward.sees(d.tenant_id)
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
    uncancelled AS (
        DELETE FROM onceward.cancelled k
        USING plan p
        JOIN onceward.dead_letters d ON d.id = p.id
        WHERE p.refusal IS NULL AND k.lane_id = d.lane_id AND k.seq = d.seq),
    unheld AS (DELETE FROM onceward.deferred f USING plan p WHERE f.dead_letter_id = p.id AND p.refusal IS NULL),
    put AS (
        INSERT INTO onceward.deferred (lane_id, queue_id, seq, state, due_at, blocks, attempts, first_error, last_error,
            first_failed_at, tenant_id, ordering_key, created_at, dead_letter_id, message)
        SELECT r.lane_id, r.queue_id, r.seq, r.state, r.due_at, r.blocks, r.attempts, r.first_error, r.last_error,
               r.first_failed_at, r.tenant_id, r.ordering_key, r.created_at, r.dead_letter_id, r.message
        FROM (
            SELECT l.id AS lane_id, l.queue_id, d.seq, CASE WHEN p.wait_ms IS NULL THEN 'parked' ELSE 'retry' END AS state,
                   v_now + p.wait_ms * interval '1 ms' AS due_at, d.ordering_key IS NOT NULL AS blocks, 0 AS attempts, NULL AS first_error,
                   NULL AS last_error, NULL::timestamptz AS first_failed_at, l.tenant_id, d.ordering_key, v_now AS created_at,
                   NULL::bigint AS dead_letter_id, d.message, p.place
            FROM plan p JOIN onceward.dead_letters d ON d.id = p.id JOIN onceward.lane l ON l.id = p.lane_id
            WHERE p.refusal IS NULL AND NOT onceward.is_unread(d)
            UNION ALL
            SELECT m.lane_id, m.queue_id, m.seq, CASE m.state WHEN 'held' THEN 'held' ELSE 'parked' END, NULL, true, m.attempts,
                   m.first_error, m.last_error, m.first_failed_at, m.tenant_id, m.ordering_key, m.created_at, m.dead_letter_id,
                   m.message, m.place
            FROM moved m) r
        ORDER BY r.lane_id, r.ordering_key, r.place),
    marked AS (UPDATE onceward.dead_letters d SET status = 'requeued' FROM plan p WHERE d.id = p.id AND p.refusal IS NULL),
    noted AS (
        INSERT INTO onceward.dead_letter_act (dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, detail)
        SELECT p.id, p.tenant_id, p.queue, p.event_type, p.version, 'requeued', p_actor, p_why,
               jsonb_build_object('laneId', p.lane_id, 'waitMs', p.wait_ms, 'behind', p.wait_ms IS NULL, 'requeues', p.requeues)
        FROM plan p WHERE p.id IS NOT NULL AND p.refusal IS NULL ORDER BY p.nth)
    SELECT p.id, p.refusal, p.queue, p.tenant_id, p.event_id, p.event_type, p.version, p.ordering_key, p.requeues, p.lane_id, p.wait_ms
    FROM plan p WHERE p.id IS NOT NULL ORDER BY p.nth;
    SELECT array_agg(DISTINCT onceward.lane_of_letter(d)) INTO v_lanes FROM onceward.dead_letters d
    WHERE d.id = ANY (p_ids) AND d.status = 'requeued';
    PERFORM onceward.wake(v_lanes);
END
$$;

-- Quarantines letters under a tag and returns the outcome of each. One that holds its key still holds it: `followers` is how many
-- messages wait behind it.
CREATE FUNCTION onceward.quarantine(p_ids bigint[], p_tag text, p_actor text, p_why text)
    RETURNS TABLE (id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int, ordering_key text,
        followers bigint)
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
        INSERT INTO onceward.dead_letter_act (dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, tag)
        SELECT a.id, a.tenant_id, a.queue, a.event_type, a.version, 'quarantined', p_actor, p_why, p_tag FROM asked a WHERE a.refusal IS NULL ORDER BY a.nth)
    SELECT a.id, a.refusal, a.queue, a.tenant_id, a.event_id, a.event_type, a.version, a.ordering_key, onceward.followers(a.id)
    FROM asked a
    ORDER BY a.nth;
END
$$;

-- Stores a message that an external bus had dead-lettered, unless it landed or was collected before. Returns the letter's id. Both
-- are recorded in the same inbox row, so that a message is never handled twice.
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
    INSERT INTO onceward.dead_letter_act (dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, detail)
    SELECT d.id, d.tenant_id, d.queue, d.event_type, d.version, 'collected', p_actor, p_why, p_detail
    FROM onceward.dead_letters d WHERE d.id = v_id;
    RETURN v_id;
END
$$;

-- The deferred messages of the outbox: their number, those refused by the bus, one error, and their age. At most p_sample are counted, and
-- is_more reports whether more exist.
CREATE FUNCTION onceward.outbox_aside(p_sample int)
    RETURNS TABLE (put_aside bigint, oldest_seconds double precision, refused bigint, next_due_ms bigint, last_error text, is_more boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH outbox AS (SELECT q.id FROM onceward.queue q WHERE q.name = '@outbox'),
    -- Messages that are due first come first, and those behind others, which have no time of their own, last.
    aside AS (
        SELECT d.created_at, d.due_at, d.last_error FROM onceward.deferred d, outbox o
        WHERE d.queue_id = o.id ORDER BY d.due_at LIMIT p_sample + 1)
    SELECT least(count(*), p_sample),
           coalesce(extract(epoch FROM clock_timestamp() - min(a.created_at)), 0)::double precision,
           count(*) FILTER (WHERE a.due_at IS NOT NULL AND a.last_error IS NOT NULL),
           onceward.next_due_ms((SELECT o.id FROM outbox o)),
           (array_agg(a.last_error ORDER BY a.due_at) FILTER (WHERE a.due_at IS NOT NULL AND a.last_error IS NOT NULL))[1],
           count(*) > p_sample
    FROM aside a
$$;

-- Makes messages that the bus refused due now; all, or those of one event. Returns their number.
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
