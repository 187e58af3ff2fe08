-- Held keys: a dead letter of a consumer that declares it holds its key. Its row in onceward.deferred is in
-- the state `held`, has no due time and blocks, so messages of the key that follow it are parked behind it,
-- until the letter is requeued (0017_requeue.sql) or released.
-- docs/decisions/0028-held-keys-and-cancelled-messages.md explains why.

-- Releases the keys that these letters hold: the messages behind them are handled without them, in their
-- order. The letters stay dead letters. Returns the outcome of each, and how many messages waited. Letters
-- and then lanes are locked, each in the same order for every caller, so that no turn parks a message behind
-- a row that is being deleted.
CREATE FUNCTION onceward.release(p_ids bigint[], p_actor text, p_why text)
    RETURNS TABLE (
        id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int,
        ordering_key text, followers bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    v_held  bigint[];
    v_lanes int[];
BEGIN
    PERFORM set_config('lock_timeout', '10s', true);
    PERFORM FROM onceward.dead_letters d
    WHERE d.id = ANY (p_ids) AND onceward.sees(d.tenant_id)
    ORDER BY d.id
    FOR UPDATE;
    PERFORM pg_advisory_xact_lock(19012, k.lane_id)
    FROM (
        SELECT DISTINCT h.lane_id
        FROM onceward.deferred h
        WHERE h.dead_letter_id = ANY (p_ids) AND onceward.sees(h.tenant_id)
        ORDER BY 1) k;
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.nth, a.id, d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key,
               onceward.followers(d.id) AS followers,
               CASE WHEN d.id IS NULL THEN 'missing'
                    WHEN NOT onceward.holds_key(d.id) THEN 'not_holding' END AS refusal
        FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth)
        LEFT JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)),
    noted AS (
        INSERT INTO onceward.dead_letter_act (
            dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, detail)
        SELECT a.id, a.tenant_id, a.queue, a.event_type, a.version, 'released', p_actor, p_why,
               jsonb_build_object('followers', a.followers)
        FROM asked a
        WHERE a.refusal IS NULL
        ORDER BY a.nth)
    SELECT a.id, a.refusal, a.queue, a.tenant_id, a.event_id, a.event_type, a.version, a.ordering_key,
           a.followers
    FROM asked a
    ORDER BY a.nth;
    SELECT array_agg(h.id), array_agg(DISTINCT h.lane_id)
    INTO v_held, v_lanes
    FROM onceward.deferred h
    WHERE h.dead_letter_id = ANY (p_ids) AND onceward.sees(h.tenant_id);
    IF v_held IS NOT NULL THEN
        PERFORM onceward.settle_deferred(v_held, 500);
        PERFORM onceward.wake(v_lanes);
    END IF;
END
$$;

-- How many messages wait behind a letter that the caller can see; NULL if it does not hold its key.
CREATE FUNCTION onceward.waiting_behind(p_letter bigint) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT onceward.followers(d.id)
    FROM onceward.dead_letters d
    WHERE d.id = p_letter AND onceward.sees(d.tenant_id)
$$;

-- The first p_limit messages that wait behind a letter, in their order. Empty if it does not hold its key.
CREATE FUNCTION onceward.waiting_followers(p_letter bigint, p_limit int)
    RETURNS TABLE (event_id uuid, event_type text, written_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT (f.message->>'id')::uuid, (f.message->>'event_type') || '.v' || (f.message->>'version'),
           f.created_at
    FROM onceward.deferred h
    JOIN onceward.deferred f
        ON f.lane_id = h.lane_id
       AND f.ordering_key = h.ordering_key
       AND f.blocks
       AND f.state = 'parked'
    WHERE h.dead_letter_id = p_letter AND onceward.sees(h.tenant_id)
    ORDER BY f.id
    LIMIT p_limit
$$;

-- The keys that dead letters hold, by queue: their number (at most p_sample are counted; `is_more` reports
-- whether more exist), and for how long the first of them has been held.
CREATE FUNCTION onceward.held_keys(p_sample int)
    RETURNS TABLE (queue text, keys bigint, is_more boolean, longest_seconds double precision)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT s.queue,
           least(count(*), p_sample),
           bool_or(s.nth > p_sample),
           extract(epoch FROM clock_timestamp() - min(s.dead_at))::double precision
    FROM (
        SELECT k.queue, k.dead_at, row_number() OVER (PARTITION BY k.queue ORDER BY k.dead_at) AS nth
        FROM (
            SELECT d.queue, min(d.dead_at) AS dead_at
            FROM onceward.deferred h
            JOIN onceward.dead_letters d ON d.id = h.dead_letter_id
            WHERE h.dead_letter_id IS NOT NULL AND onceward.sees(h.tenant_id)
            GROUP BY d.queue, h.lane_id, h.ordering_key) k) s
    WHERE s.nth <= p_sample + 1
    GROUP BY s.queue
    ORDER BY s.queue
$$;
