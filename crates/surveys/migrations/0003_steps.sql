-- The steps of a session, each one call. Order of locks, the same for all: the session's row, then buckets by their ids,
-- all of them in one statement. Nobody takes buckets twice in a transaction.

-- The gate. Gives places back, takes new ones and turns held ones into filled ones, all of it or nothing: where a wanted place
-- is not there, the places in `p_give_back_if_full` go back as well and no other is taken. The caller holds the session's lock.
--   p_release: held → free     p_reserve: free → held     p_finalize: held → filled     p_fill: free → filled
CREATE FUNCTION surveys.move_places(
    p_release uuid[], p_reserve uuid[], p_finalize uuid[], p_fill uuid[], p_give_back_if_full uuid[])
    RETURNS TABLE (bucket_id uuid, moved text, reserved int, filled int, target int, closed boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
    v_wanted uuid[] := p_reserve || p_fill;
    v_locked boolean := false;
    v_full   boolean;
BEGIN
    -- First without a lock: who can see that there is no place need not wait for those who were in time.
    LOOP
        SELECT coalesce(bool_or(b.filled_n >= b.target_n OR b.reserved_n + b.filled_n >= b.target_n + b.max_overfill), false)
        INTO v_full FROM surveys.quota_bucket b WHERE b.bucket_id = ANY (v_wanted) AND b.tenant_id = v_tenant;
        EXIT WHEN v_full OR v_locked;
        PERFORM 1 FROM surveys.quota_bucket b
        WHERE b.bucket_id = ANY (p_release || v_wanted || p_finalize || p_give_back_if_full) AND b.tenant_id = v_tenant
        ORDER BY b.bucket_id FOR NO KEY UPDATE;
        v_locked := true;
    END LOOP;
    IF v_full THEN
        RETURN QUERY SELECT NULL::uuid, 'full', 0, 0, 0, false;
        IF cardinality(p_give_back_if_full) = 0 THEN
            RETURN;
        END IF;
        IF NOT v_locked THEN
            PERFORM 1 FROM surveys.quota_bucket b
            WHERE b.bucket_id = ANY (p_give_back_if_full) AND b.tenant_id = v_tenant ORDER BY b.bucket_id FOR NO KEY UPDATE;
        END IF;
        p_release := p_give_back_if_full;
        p_reserve := '{}';
        p_finalize := '{}';
        p_fill := '{}';
    END IF;
    RETURN QUERY
    UPDATE surveys.quota_bucket b
    SET reserved_n = b.reserved_n + m.reserved, filled_n = b.filled_n + m.filled,
        closed_at = CASE WHEN b.filled_n + m.filled >= b.target_n THEN coalesce(b.closed_at, clock_timestamp()) END
    FROM (SELECT r AS id, 'released' AS moved, -1 AS reserved, 0 AS filled FROM unnest(p_release) AS r
          UNION ALL SELECT r, 'reserved', 1, 0 FROM unnest(p_reserve) AS r
          UNION ALL SELECT r, 'finalized', -1, 1 FROM unnest(p_finalize) AS r
          UNION ALL SELECT r, 'finalized', 0, 1 FROM unnest(p_fill) AS r) m
    WHERE b.bucket_id = m.id AND b.tenant_id = v_tenant
    RETURNING b.bucket_id, m.moved, b.reserved_n, b.filled_n, b.target_n, m.filled > 0 AND b.filled_n = b.target_n;
END
$$;

-- Lets a respondent in, or says why not in `refusal`. The same digest is the same start.
CREATE FUNCTION surveys.admit(
    p_session uuid, p_collector uuid, p_invite uuid, p_digest bytea, p_session_s int)
    RETURNS TABLE (refusal text, fresh boolean, session_id uuid, survey_id uuid, version int, quota_revision int)
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
    -- Two starts with one key take turns.
    PERFORM pg_advisory_xact_lock(hashtextextended(encode(p_digest, 'hex'), 0));
    SELECT * INTO v_collector FROM surveys.collector c WHERE c.collector_id = p_collector AND c.tenant_id = v_tenant;
    SELECT * INTO v_survey FROM surveys.survey s WHERE s.survey_id = v_collector.survey_id AND s.tenant_id = v_tenant;
    IF v_survey IS NULL THEN
        RETURN QUERY SELECT 'unknown', false, NULL::uuid, NULL::uuid, 0, 0; RETURN;
    END IF;
    IF p_invite IS NOT NULL THEN
        SELECT i.session_id INTO v_used_by FROM surveys.invite i
        WHERE i.invite_id = p_invite AND i.tenant_id = v_tenant AND i.collector_id = p_collector FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN QUERY SELECT 'unknown', false, NULL::uuid, NULL::uuid, 0, 0; RETURN;
        END IF;
    END IF;
    RETURN QUERY
    SELECT CASE WHEN s.start_digest <> p_digest AND s.status <> 'active' THEN 'invite_used' END, false, s.session_id, s.survey_id,
        s.version, v_survey.quota_revision
    FROM surveys.session s
    WHERE s.tenant_id = v_tenant AND (s.start_digest = p_digest OR s.session_id = v_used_by)
    ORDER BY s.start_digest = p_digest DESC LIMIT 1;
    IF FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT r.refusal, false, NULL::uuid, NULL::uuid, 0, 0
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
            RETURN QUERY SELECT 'cap_reached', false, NULL::uuid, NULL::uuid, 0, 0; RETURN;
        END IF;
    END IF;
    INSERT INTO surveys.session (tenant_id, session_id, survey_id, collector_id, version, invite_id, start_digest, due_at)
    VALUES (v_tenant, p_session, v_survey.survey_id, p_collector, v_survey.published_version, p_invite, p_digest,
        v_now + make_interval(secs => p_session_s));
    IF p_invite IS NOT NULL THEN
        UPDATE surveys.invite i SET session_id = p_session, consumed_at = v_now
        WHERE i.invite_id = p_invite AND i.tenant_id = v_tenant AND i.consumed_at IS NULL;
    END IF;
    RETURN QUERY SELECT NULL, true, p_session, v_survey.survey_id, v_survey.published_version, v_survey.quota_revision;
END
$$;

-- The session, with its lock if asked for, and what was answered so far. Two statements, so that the second sees what the lock
-- waited for.
CREATE FUNCTION surveys.open_session(p_session uuid, p_page text, p_locked boolean)
    RETURNS TABLE (survey_id uuid, collector_id uuid, version int, status text, reason text, held uuid[], filled uuid[],
        quota_revision int, duration_ms bigint, answers jsonb, attempt int, body_digest bytea, outcome jsonb)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant  text := onceward_meta.current_tenant();
    v_session surveys.session;
BEGIN
    IF p_locked THEN
        SELECT * INTO v_session FROM surveys.session s WHERE s.session_id = p_session AND s.tenant_id = v_tenant FOR NO KEY UPDATE;
    ELSE
        SELECT * INTO v_session FROM surveys.session s WHERE s.session_id = p_session AND s.tenant_id = v_tenant;
    END IF;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT v_session.survey_id, v_session.collector_id, v_session.version, v_session.status, v_session.reason, v_session.held,
        v_session.filled, v.quota_revision,
        (extract(epoch FROM coalesce(v_session.ended_at, clock_timestamp()) - v_session.started_at) * 1000)::bigint,
        a.answers, a.attempt, a.body_digest, a.outcome
    FROM surveys.survey v
    CROSS JOIN (SELECT coalesce(jsonb_object_agg(a.page_id, a.answers), '{}') AS answers,
            max(a.attempt) FILTER (WHERE a.page_id = p_page) AS attempt,
            (array_agg(a.body_digest) FILTER (WHERE a.page_id = p_page))[1] AS body_digest,
            (array_agg(a.outcome) FILTER (WHERE a.page_id = p_page))[1] AS outcome
        FROM surveys.answer a WHERE a.session_id = p_session AND a.tenant_id = v_tenant) a
    WHERE v.survey_id = v_session.survey_id AND v.tenant_id = v_tenant;
END
$$;

-- Moves the places of a session that `surveys.open_session` locked, and writes what becomes of the session. A session that
-- finds a bucket full ends with that, whatever was meant to become of it.
CREATE FUNCTION surveys.step(
    p_session uuid, p_status text, p_reason text, p_release uuid[], p_reserve uuid[], p_finalize uuid[], p_fill uuid[],
    p_reservation_s int, p_session_s int)
    RETURNS TABLE (bucket_id uuid, moved text, reserved int, filled int, target int, closed boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
    v_now    timestamptz := clock_timestamp();
    v_moved  record;
    v_held   uuid[];
    v_filled uuid[] := '{}';
BEGIN
    SELECT s.held INTO v_held FROM surveys.session s WHERE s.session_id = p_session AND s.tenant_id = v_tenant;
    FOR v_moved IN SELECT * FROM surveys.move_places(p_release, p_reserve, p_finalize, p_fill, v_held) LOOP
        IF v_moved.moved = 'full' THEN
            p_status := 'terminated';
            p_reason := 'quota_full';
        ELSIF v_moved.moved = 'reserved' THEN
            v_held := v_held || v_moved.bucket_id;
        ELSE
            v_held := array_remove(v_held, v_moved.bucket_id);
            IF v_moved.moved = 'finalized' THEN
                v_filled := v_filled || v_moved.bucket_id;
            END IF;
        END IF;
        bucket_id := v_moved.bucket_id; moved := v_moved.moved; reserved := v_moved.reserved; filled := v_moved.filled;
        target := v_moved.target; closed := v_moved.closed;
        RETURN NEXT;
    END LOOP;
    UPDATE surveys.session s
    SET status = p_status, reason = p_reason, held = v_held, filled = v_filled, last_seen_at = v_now,
        ended_at = CASE WHEN p_status <> 'active' THEN v_now END,
        -- Rounded up, so that the index is not written by every page of a session.
        due_at = CASE WHEN p_status <> 'active' THEN s.due_at ELSE to_timestamp(ceil((extract(epoch FROM v_now)
            + CASE WHEN v_held = '{}' THEN p_session_s ELSE least(p_reservation_s, p_session_s) END) / 15) * 15) END
    WHERE s.session_id = p_session AND s.tenant_id = v_tenant;
END
$$;

-- A page's submit: `surveys.step`, and the answers with the one of two outcomes that it comes to.
CREATE FUNCTION surveys.submit_page(
    p_session uuid, p_page text, p_attempt int, p_answers jsonb, p_digest bytea, p_outcome jsonb, p_outcome_full jsonb,
    p_status text, p_reason text, p_release uuid[], p_reserve uuid[], p_reservation_s int, p_session_s int)
    RETURNS TABLE (bucket_id uuid, moved text, reserved int, filled int, target int, closed boolean)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
BEGIN
    RETURN QUERY SELECT * FROM surveys.step(
        p_session, p_status, p_reason, p_release, p_reserve, '{}', '{}', p_reservation_s, p_session_s);
    INSERT INTO surveys.answer AS a (tenant_id, session_id, page_id, attempt, answers, body_digest, outcome)
    SELECT v_tenant, p_session, p_page, p_attempt, p_answers, p_digest,
        CASE WHEN s.reason = 'quota_full' THEN p_outcome_full ELSE p_outcome END
    FROM surveys.session s WHERE s.session_id = p_session AND s.tenant_id = v_tenant
    ON CONFLICT (session_id, page_id, tenant_id) DO UPDATE
    SET attempt = excluded.attempt, answers = excluded.answers, body_digest = excluded.body_digest,
        outcome = excluded.outcome, submitted_at = clock_timestamp();
END
$$;

-- Sessions that were silent for too long: their places go back, and those silent for longer end. Sessions that somebody is
-- in are passed over; the next call finds them. One row for each place, and one without a bucket for each session that ended.
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

GRANT EXECUTE ON FUNCTION surveys.move_places, surveys.admit, surveys.open_session, surveys.step, surveys.submit_page,
    surveys.expire TO onceward_app;
