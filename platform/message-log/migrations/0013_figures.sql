-- Figures: depth and age of queues, and messages that nothing handles.

-- Depth and age of every queue. Depth is exact up to p_sample messages per lane; beyond that it is
-- extrapolated from the density of the sample. Deferred messages, including those behind others, and dead
-- letters are counted up to p_sample, and `…_is_more` reports whether more exist. So the cost does not grow
-- with the backlog.
CREATE FUNCTION onceward.queue_stats(p_sample int)
    RETURNS TABLE (
        queue text, depth bigint, lag_seconds double precision, deferred bigint, dead bigint,
        deferred_is_more boolean, dead_is_more boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    AS $$
BEGIN
    RETURN QUERY
    WITH lanes AS (
        SELECT l.queue_id, s.n, s.first_at,
               CASE WHEN s.n < p_sample THEN 0
                    ELSE (s.n / greatest(s.to_seq - s.from_seq, 1)::double precision)
                         * (h.top_seq - s.to_seq) END AS beyond
        FROM onceward.lane l
        LEFT JOIN LATERAL (
            SELECT t.last_seq
            FROM onceward.lane_turn t
            WHERE t.lane_id = l.id
            ORDER BY t.turn DESC
            LIMIT 1) c ON true
        CROSS JOIN LATERAL (
            SELECT count(*) AS n, min(w.seq) AS from_seq, max(w.seq) AS to_seq, min(w.created_at) AS first_at
            FROM (
                SELECT m.seq, m.created_at
                FROM onceward.message_log m
                WHERE m.lane_id = l.id AND m.seq > coalesce(c.last_seq, 0)
                ORDER BY m.seq
                LIMIT p_sample) w) s
        LEFT JOIN LATERAL (
            SELECT m.seq AS top_seq
            FROM onceward.message_log m
            WHERE s.n = p_sample AND m.lane_id = l.id
            ORDER BY m.seq DESC
            LIMIT 1) h ON true)
    SELECT q.name,
           coalesce(t.depth, 0)::bigint,
           coalesce(
               greatest(0, extract(
                   epoch FROM clock_timestamp() - least(t.first_at, aside.first_at, delayed.due_at))),
               0)::double precision,
           least(a.n, p_sample),
           least(d.n, p_sample),
           a.n > p_sample,
           d.n > p_sample
    FROM onceward.queue q
    LEFT JOIN (
        SELECT lanes.queue_id, sum(lanes.n + coalesce(lanes.beyond, 0)) AS depth,
               min(lanes.first_at) AS first_at
        FROM lanes
        GROUP BY 1) t ON t.queue_id = q.id
    -- The age of a failed message, and of those behind it, counts from its publication.
    LEFT JOIN LATERAL (
        SELECT f.created_at AS first_at
        FROM onceward.deferred f
        WHERE f.queue_id = q.id AND f.state NOT IN ('delayed', 'held')
        ORDER BY f.created_at
        LIMIT 1) aside ON true
    -- The age of a message that was delayed on purpose counts from the time at which it was due.
    LEFT JOIN LATERAL (
        SELECT f.due_at
        FROM onceward.deferred f
        WHERE f.queue_id = q.id AND f.due_at <= clock_timestamp()
        ORDER BY f.due_at
        LIMIT 1) delayed ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS n
        FROM (
            SELECT
            FROM onceward.deferred f
            WHERE f.queue_id = q.id AND f.state <> 'held'
            LIMIT p_sample + 1) x) a
    CROSS JOIN LATERAL (
        SELECT count(*) AS n
        FROM (
            SELECT
            FROM onceward.dead_letters f
            WHERE f.queue = q.name AND f.status = 'dead'
            LIMIT p_sample + 1) x) d;
END
$$;

-- Messages of types or versions that no running worker knows, by queue: their number (at most p_sample are
-- counted; `is_more` reports whether more exist), the age of the oldest since its publication, and some of
-- their types. Other messages of their keys wait too.
CREATE FUNCTION onceward.unknown_messages(p_sample int)
    RETURNS TABLE (
        queue text, messages bigint, is_more boolean, oldest_seconds double precision, event_types text[])
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT q.name,
           least(w.messages, p_sample),
           w.messages > p_sample,
           coalesce(greatest(0, extract(epoch FROM clock_timestamp() - w.oldest)), 0)::double precision,
           coalesce(w.event_types[1:5], '{}')
    FROM onceward.queue q
    CROSS JOIN LATERAL (
        SELECT count(*) AS messages, min(s.created_at) AS oldest,
               array_agg(DISTINCT s.event_type) AS event_types
        FROM (SELECT d.created_at, (d.message->>'event_type') || '.v' || (d.message->>'version') AS event_type
              FROM onceward.deferred d
              WHERE d.queue_id = q.id AND d.state = 'unknown'
              ORDER BY d.created_at
              LIMIT p_sample + 1) s) w
    ORDER BY q.name
$$;

-- Unrouted messages by exchange and event type, the most frequent first. Of each type the latest p_sample
-- messages are counted, and `is_more` reports whether more exist. They are kept as long as their partition.
CREATE FUNCTION onceward.unrouted(p_sample int)
    RETURNS TABLE (
        exchange text, event_type text, messages bigint, is_more boolean, example text, first_at timestamptz,
        last_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off
    AS $$
BEGIN
    RETURN QUERY
    SELECT split_part(m.topic, ':', 1), m.event_type || '.v' || m.version, least(count(*), p_sample),
           count(*) > p_sample, max(m.topic), min(m.created_at), max(m.created_at)
    FROM (
        SELECT -1 AS id
        UNION ALL
        SELECT u.id
        FROM onceward.unrouted_lane u) lane
    CROSS JOIN LATERAL (
        SELECT l.topic, l.event_type, l.version, l.created_at
        FROM onceward.message_log l
        WHERE l.lane_id = lane.id AND onceward.sees(l.tenant_id)
        ORDER BY l.seq DESC
        LIMIT p_sample + 1) m
    GROUP BY 1, 2
    ORDER BY 3 DESC, 1, 2;
END
$$;
