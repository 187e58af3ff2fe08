-- The steps of sessions, many per call. The lock order is the same everywhere: session rows by id, then buckets by id, each set in
-- one statement. No transaction locks either set twice.
--
-- Array parameters make the planner guess, and plans are cached, even those made while the tables were empty. So these functions
-- force lookups by primary key: with their settings, with `OFFSET 0`, which keeps a table behind the rows that select from it, and
-- with `= ANY` in addition to the join of an UPDATE, whose join order cannot be forced.

-- Admits a respondent, or returns the reason in `refusal`. Equal digests identify the same start; `recent` is true if the session was
-- started within the last minute.
CREATE FUNCTION surveys.admit(
    p_session uuid, p_collector uuid, p_invite uuid, p_digest bytea, p_session_s int)
    RETURNS TABLE (refusal text, fresh boolean, recent boolean, session_id uuid, survey_id uuid, version int, quota_revision int)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant    text := onceward_meta.current_tenant();
    v_now       timestamptz := clock_timestamp();
    v_collector surveys.collector;
    v_survey    surveys.survey;
    v_used_by   uuid;
BEGIN
    -- Serializes starts with the same key.
    PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_digest, 'hex'), 0));
    SELECT * INTO v_collector FROM surveys.collector c WHERE c.collector_id = p_collector AND c.tenant_id = v_tenant;
    SELECT * INTO v_survey FROM surveys.survey s WHERE s.survey_id = v_collector.survey_id AND s.tenant_id = v_tenant;
    IF v_survey IS NULL THEN
        RETURN QUERY SELECT 'unknown', false, false, NULL::uuid, NULL::uuid, 0, 0; RETURN;
    END IF;
    IF p_invite IS NOT NULL THEN
        SELECT i.session_id INTO v_used_by FROM surveys.invite i
        WHERE i.invite_id = p_invite AND i.tenant_id = v_tenant AND i.collector_id = p_collector FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'unknown', false, false, NULL::uuid, NULL::uuid, 0, 0; RETURN;
        END IF;
    END IF;
    RETURN QUERY
    SELECT CASE WHEN s.start_digest <> p_digest AND s.status <> 'active' THEN 'invite_used' END, false,
        s.started_at > v_now - interval '1 minute', s.session_id, s.survey_id, s.version, v_survey.quota_revision
    FROM surveys.session s
    WHERE s.tenant_id = v_tenant AND (s.start_digest = p_digest OR s.session_id = v_used_by)
    ORDER BY s.start_digest = p_digest DESC LIMIT 1;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT r.refusal, false, false, NULL::uuid, NULL::uuid, 0, 0
    FROM (SELECT CASE
        WHEN v_survey.status = 'draft' THEN 'unknown'
        WHEN (v_collector.kind = 'invite') <> (p_invite IS NOT NULL) THEN 'unknown'
        WHEN v_collector.status = 'closed' OR v_now >= v_collector.closes_at THEN 'closed'
        WHEN v_survey.status = 'paused' OR v_collector.status = 'paused' THEN 'paused'
        WHEN v_now < v_collector.opens_at THEN 'not_open_yet' END) AS r (refusal)
    WHERE r.refusal IS NOT NULL;
    IF FOUND THEN
        RETURN;
    END IF;
    IF v_collector.cap IS NOT NULL THEN
        UPDATE surveys.collector c SET let_in_n = c.let_in_n + 1
        WHERE c.collector_id = p_collector AND c.tenant_id = v_tenant AND c.status = 'open' AND c.let_in_n < c.cap;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'cap_reached', false, false, NULL::uuid, NULL::uuid, 0, 0; RETURN;
        END IF;
    END IF;
    INSERT INTO surveys.session (tenant_id, session_id, survey_id, collector_id, version, invite_id, start_digest, due_at)
    VALUES (v_tenant, p_session, v_survey.survey_id, p_collector, v_survey.published_version, p_invite, p_digest,
        v_now + make_interval(secs => p_session_s));
    IF p_invite IS NOT NULL THEN
        UPDATE surveys.invite i SET session_id = p_session, consumed_at = v_now
        WHERE i.invite_id = p_invite AND i.tenant_id = v_tenant AND i.consumed_at IS NULL;
    END IF;
    RETURN QUERY SELECT NULL, true, true, p_session, v_survey.survey_id, v_survey.published_version, v_survey.quota_revision;
END
$$;

-- Returns the sessions, locked if `p_locked`, with their answers so far: one row for each session that exists, numbered by its index in
-- `p_sessions`, with the last submit of its page in `p_pages`. There are two statements, so that the second sees the changes that the
-- first waited for.
CREATE FUNCTION surveys.open_sessions(p_sessions uuid[], p_pages text[], p_locked boolean)
    RETURNS TABLE (item int, survey_id uuid, collector_id uuid, version int, status text, reason text, held uuid[],
        quota_revision int, duration_ms bigint, answers jsonb, attempt int, body_digest bytea, outcome jsonb)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
BEGIN
    IF p_locked THEN
        PERFORM 1 FROM surveys.session s WHERE s.session_id = ANY (p_sessions) AND s.tenant_id = v_tenant
        ORDER BY s.session_id FOR NO KEY UPDATE;
    END IF;
    RETURN QUERY
    SELECT i.item::int, s.survey_id, s.collector_id, s.version, s.status, s.reason, s.held, v.quota_revision,
        (extract(epoch FROM coalesce(s.ended_at, clock_timestamp()) - s.started_at) * 1000)::bigint,
        a.answers, a.attempt, a.body_digest, a.outcome
    FROM unnest(p_sessions, p_pages) WITH ORDINALITY AS i (session_id, page_id, item)
    CROSS JOIN LATERAL (SELECT * FROM surveys.session s WHERE s.session_id = i.session_id AND s.tenant_id = v_tenant OFFSET 0) s
    CROSS JOIN LATERAL (SELECT * FROM surveys.survey v WHERE v.survey_id = s.survey_id AND v.tenant_id = v_tenant OFFSET 0) v
    CROSS JOIN LATERAL (SELECT coalesce(jsonb_object_agg(a.page_id, a.answers), '{}') AS answers,
            max(a.attempt) FILTER (WHERE a.page_id = i.page_id) AS attempt,
            (array_agg(a.body_digest) FILTER (WHERE a.page_id = i.page_id))[1] AS body_digest,
            (array_agg(a.outcome) FILTER (WHERE a.page_id = i.page_id))[1] AS outcome
        FROM surveys.answer a WHERE a.session_id = i.session_id AND a.tenant_id = v_tenant) a;
END
$$;

-- The rule of the gate: whether a bucket has no place left for another session.
CREATE FUNCTION surveys.is_full(p_reserved int, p_filled int, p_target int, p_overfill int) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
SELECT p_filled >= p_target OR p_reserved + p_filled >= p_target + p_overfill
$$;

-- The gate. Applies steps of different sessions, which `surveys.open_sessions` has locked, as if they ran one after the other: changes
-- their places and writes their new states. Each session gets all the places that it needs or none. A session that finds a bucket full
-- is terminated, whatever its step requested, and releases the places it holds.
--   p_sessions … p_outcomes: one entry per step; a step that submits no page has NULL in p_pages … p_outcomes
--   p_items, p_buckets, p_kinds: the changes of places, ordered by the number of their step, from 1
--   release: held → free     reserve: free → held     finalize: held → filled     fill: free → filled
-- Returns the counts of the bucket after each change, and a row without a bucket for each step that found a bucket full.
CREATE FUNCTION surveys.steps(
    p_sessions uuid[], p_statuses text[], p_reasons text[], p_pages text[], p_attempts int[], p_answers jsonb[],
    p_digests bytea[], p_outcomes jsonb[], p_outcome_full jsonb, p_items int[], p_buckets uuid[], p_kinds text[],
    p_reservation_s int, p_session_s int)
    RETURNS TABLE (item int, bucket_id uuid, moved text, reserved int, filled int, target int, closed boolean)
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
    v_now    timestamptz;
    -- Per step, the buckets that its session holds and has filled, or NULL if they do not change. Stored as text, because the
    -- inner arrays of a two-dimensional array must have equal lengths.
    v_held   text[];
    v_filled text[];
    v_locks  uuid[];
    -- Per locked bucket, its id and its counts.
    v_ids    uuid[];
    v_res    int[];
    v_fil    int[];
    v_target int[];
    v_over   int[];
    v_move   int := 1;
    v_first  int;
    v_at     int;
    v_full   boolean;
    v_mine   uuid[];
    v_done   uuid[];
    v_these  uuid[];
    v_kind   text;
BEGIN
    IF cardinality(p_items) > 0 THEN
        SELECT array_agg(CASE WHEN i.n = ANY (p_items) THEN s.held::text END ORDER BY i.n) INTO v_held
        FROM unnest(p_sessions) WITH ORDINALITY AS i (session_id, n)
        LEFT JOIN LATERAL (
            SELECT s.held FROM surveys.session s WHERE s.session_id = i.session_id AND s.tenant_id = v_tenant OFFSET 0) s ON true;
        v_filled := array_fill(NULL::text, ARRAY[cardinality(p_sessions)]);
        -- First without a lock: a step that sees a full bucket is refused without waiting for its lock. A bucket in which one of
        -- these sessions holds a place is not checked here, because it is locked anyway and the place may be released by this call.
        WITH move AS MATERIALIZED (
            SELECT m.item, m.bucket_id, m.kind IN ('reserve', 'fill') AS wanted
            FROM unnest(p_items, p_buckets, p_kinds) AS m (item, bucket_id, kind)
        ), held AS MATERIALIZED (
            SELECT h.item::int AS item, u.bucket_id FROM unnest(v_held) WITH ORDINALITY AS h (buckets, item)
            CROSS JOIN LATERAL unnest(h.buckets::uuid[]) AS u (bucket_id)
        ), seen_full AS MATERIALIZED (
            SELECT b.bucket_id FROM surveys.quota_bucket b
            WHERE b.bucket_id = ANY (ARRAY(SELECT m.bucket_id FROM move m WHERE m.wanted EXCEPT SELECT h.bucket_id FROM held h))
                AND b.tenant_id = v_tenant AND surveys.is_full(b.reserved_n, b.filled_n, b.target_n, b.max_overfill)
        ), refused AS MATERIALIZED (
            SELECT m.item FROM move m WHERE m.wanted AND m.bucket_id IN (SELECT f.bucket_id FROM seen_full f)
        )
        SELECT array_agg(l.bucket_id) INTO v_locks
        FROM (SELECT m.bucket_id FROM move m WHERE m.item NOT IN (SELECT r.item FROM refused r)
              UNION SELECT h.bucket_id FROM held h WHERE h.item IN (SELECT m.item FROM move m WHERE m.wanted)) l;
        SELECT array_agg(b.bucket_id), array_agg(b.reserved_n), array_agg(b.filled_n), array_agg(b.target_n),
            array_agg(b.max_overfill)
        INTO v_ids, v_res, v_fil, v_target, v_over
        FROM (SELECT * FROM surveys.quota_bucket b WHERE b.bucket_id = ANY (v_locks) AND b.tenant_id = v_tenant
              ORDER BY b.bucket_id FOR NO KEY UPDATE) b;
    END IF;
    v_now := clock_timestamp();

    -- Step by step, against the counts that the steps before have left. A bucket that is not locked was seen to be full.
    WHILE v_move <= cardinality(p_items) LOOP
        item := p_items[v_move];
        v_first := v_move;
        v_full := false;
        WHILE p_items[v_move] = item LOOP
            IF p_kinds[v_move] IN ('reserve', 'fill') THEN
                v_at := array_position(v_ids, p_buckets[v_move]);
                v_full := v_full OR v_at IS NULL OR surveys.is_full(v_res[v_at], v_fil[v_at], v_target[v_at], v_over[v_at]);
            END IF;
            v_move := v_move + 1;
        END LOOP;
        v_mine := v_held[item]::uuid[];
        v_done := '{}';
        v_these := p_buckets[v_first:v_move - 1];
        IF v_full THEN
            p_statuses[item] := 'terminated';
            p_reasons[item] := 'quota_full';
            v_these := v_mine;
            bucket_id := NULL; moved := 'full'; reserved := 0; filled := 0; target := 0; closed := false;
            RETURN NEXT;
        END IF;
        FOR n IN 1..cardinality(v_these) LOOP
            v_kind := CASE WHEN v_full THEN 'release' ELSE p_kinds[v_first + n - 1] END;
            bucket_id := v_these[n];
            v_at := array_position(v_ids, bucket_id);
            moved := CASE v_kind WHEN 'release' THEN 'released' WHEN 'reserve' THEN 'reserved' ELSE 'finalized' END;
            v_res[v_at] := v_res[v_at] + CASE v_kind WHEN 'reserve' THEN 1 WHEN 'fill' THEN 0 ELSE -1 END;
            v_mine := CASE v_kind WHEN 'reserve' THEN v_mine || bucket_id ELSE array_remove(v_mine, bucket_id) END;
            IF moved = 'finalized' THEN
                v_fil[v_at] := v_fil[v_at] + 1;
                v_done := v_done || bucket_id;
            END IF;
            reserved := v_res[v_at]; filled := v_fil[v_at]; target := v_target[v_at];
            closed := moved = 'finalized' AND filled = target;
            RETURN NEXT;
        END LOOP;
        v_held[item] := v_mine::text;
        v_filled[item] := v_done::text;
    END LOOP;

    IF v_ids IS NOT NULL THEN
        UPDATE surveys.quota_bucket b
        SET reserved_n = n.reserved, filled_n = n.filled,
            closed_at = CASE WHEN n.filled >= b.target_n THEN coalesce(b.closed_at, v_now) END
        FROM unnest(v_ids, v_res, v_fil) AS n (bucket_id, reserved, filled)
        WHERE b.bucket_id = ANY (v_ids) AND b.tenant_id = v_tenant AND b.bucket_id = n.bucket_id
            AND (b.reserved_n <> n.reserved OR b.filled_n <> n.filled);
    END IF;
    UPDATE surveys.session s
    SET status = n.status, reason = n.reason, held = coalesce(n.held::uuid[], s.held), filled = coalesce(n.filled::uuid[], '{}'),
        last_seen_at = v_now, ended_at = CASE WHEN n.status <> 'active' THEN v_now END,
        -- Rounded up, so that not every page of a session updates the index.
        due_at = CASE WHEN n.status <> 'active' THEN s.due_at ELSE to_timestamp(ceil((extract(epoch FROM v_now)
            + CASE WHEN coalesce(n.held::uuid[], s.held) = '{}' THEN p_session_s ELSE least(p_reservation_s, p_session_s) END)
            / 15) * 15) END
    FROM unnest(p_sessions, p_statuses, p_reasons, v_held, v_filled) AS n (session_id, status, reason, held, filled)
    WHERE s.session_id = ANY (p_sessions) AND s.tenant_id = v_tenant AND s.session_id = n.session_id;
    IF cardinality(array_remove(p_pages, NULL)) > 0 THEN
        INSERT INTO surveys.answer AS a (tenant_id, session_id, page_id, attempt, answers, body_digest, outcome)
        SELECT v_tenant, n.session_id, n.page_id, n.attempt, n.answers, n.digest,
            CASE WHEN n.reason = 'quota_full' THEN p_outcome_full ELSE n.outcome END
        FROM unnest(p_sessions, p_reasons, p_pages, p_attempts, p_answers, p_digests, p_outcomes)
            AS n (session_id, reason, page_id, attempt, answers, digest, outcome)
        WHERE n.page_id IS NOT NULL
        ON CONFLICT (session_id, page_id, tenant_id) DO UPDATE
        SET attempt = excluded.attempt, answers = excluded.answers, body_digest = excluded.body_digest,
            outcome = excluded.outcome, submitted_at = clock_timestamp();
    END IF;
END
$$;

-- Handles sessions that were inactive for too long: they release their places, and those inactive for even longer end. Sessions that
-- another transaction has locked are skipped until the next call. Returns one row per released place, and one row without a bucket per
-- session, whose session_id is NULL if the session continues.
CREATE FUNCTION surveys.expire(p_reservation_s int, p_session_s int, p_limit int)
    RETURNS TABLE (session_id uuid, survey_id uuid, collector_id uuid, version int, bucket_id uuid, reserved int, filled int,
        target int)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant   text := onceward_meta.current_tenant();
    v_now      timestamptz := clock_timestamp();
    v_sessions uuid[];
    v_buckets  uuid[];
BEGIN
    v_sessions := ARRAY(SELECT s.session_id FROM surveys.session s
        WHERE s.tenant_id = v_tenant AND s.status = 'active' AND s.due_at <= v_now
        ORDER BY s.due_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
    IF cardinality(v_sessions) = 0 THEN
        RETURN;
    END IF;
    v_buckets := ARRAY(SELECT DISTINCT h FROM surveys.session s CROSS JOIN unnest(s.held) AS h
        WHERE s.session_id = ANY (v_sessions) AND s.tenant_id = v_tenant ORDER BY h);
    PERFORM 1 FROM surveys.quota_bucket b
    WHERE b.bucket_id = ANY (v_buckets) AND b.tenant_id = v_tenant ORDER BY b.bucket_id FOR NO KEY UPDATE;
    UPDATE surveys.quota_bucket b SET reserved_n = b.reserved_n - h.places
    FROM (SELECT h.id, count(*)::int AS places FROM surveys.session s CROSS JOIN unnest(s.held) AS h (id)
          WHERE s.session_id = ANY (v_sessions) AND s.tenant_id = v_tenant GROUP BY h.id) h
    WHERE b.bucket_id = h.id AND b.tenant_id = v_tenant;
    RETURN QUERY
    SELECT s.session_id, s.survey_id, s.collector_id, s.version, b.bucket_id, b.reserved_n, b.filled_n, b.target_n
    FROM surveys.session s CROSS JOIN unnest(s.held) AS h (id)
    JOIN surveys.quota_bucket b ON b.bucket_id = h.id AND b.tenant_id = v_tenant
    WHERE s.session_id = ANY (v_sessions) AND s.tenant_id = v_tenant;
    RETURN QUERY
    UPDATE surveys.session s
    SET held = '{}', status = d.status, reason = CASE WHEN d.status = 'terminated' THEN 'expired' END,
        ended_at = CASE WHEN d.status = 'terminated' THEN v_now END,
        due_at = s.last_seen_at + make_interval(secs => p_session_s)
    FROM (SELECT o.session_id, CASE WHEN o.last_seen_at + make_interval(secs => p_session_s) <= v_now THEN 'terminated'
              ELSE 'active' END AS status
          FROM surveys.session o WHERE o.session_id = ANY (v_sessions) AND o.tenant_id = v_tenant) d
    WHERE s.session_id = d.session_id AND s.tenant_id = v_tenant
    RETURNING CASE WHEN d.status = 'terminated' THEN s.session_id END, s.survey_id, s.collector_id, s.version, NULL::uuid, 0, 0, 0;
END
$$;

GRANT EXECUTE ON FUNCTION surveys.admit, surveys.open_sessions, surveys.is_full, surveys.steps, surveys.expire TO onceward_app;
