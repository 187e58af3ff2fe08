-- The counts of the live view, derived from events. One lane per tenant counts, so that no two workers update the same row.

-- The number of events per minute in which they happened. The nil id stands for "none", because key columns are not NULL.
CREATE TABLE surveys.dash_tally (
    tenant_id    text        NOT NULL,
    survey_id    uuid        NOT NULL,
    minute       timestamptz NOT NULL,
    collector_id uuid        NOT NULL,
    bucket_id    uuid        NOT NULL,
    kind         text        NOT NULL,
    -- A reason, or the id of a page.
    detail       text        NOT NULL,
    n            bigint      NOT NULL,
    PRIMARY KEY (survey_id, minute, kind, detail, collector_id, bucket_id, tenant_id)
) WITH (fillfactor = 70);
SELECT onceward_meta.protect('surveys.dash_tally');
-- For removing old counts.
CREATE INDEX dash_tally_minute ON surveys.dash_tally (tenant_id, minute);

-- The position of each session: the id of the page that its respondent sees, '' for the first page, or '@end' when everything is
-- answered. Events may arrive in any order: the page with the higher index wins, and a final state is never replaced.
CREATE TABLE surveys.dash_session (
    tenant_id    text        NOT NULL,
    session_id   uuid        NOT NULL,
    survey_id    uuid        NOT NULL,
    collector_id uuid        NOT NULL,
    page_id      text        NOT NULL,
    page_index   int         NOT NULL,
    state        text        NOT NULL,
    -- When its last event happened.
    seen_at      timestamptz NOT NULL,
    PRIMARY KEY (session_id, tenant_id)
) WITH (fillfactor = 70);
SELECT onceward_meta.protect('surveys.dash_session');
-- For finding inactive sessions, and for removing old ones.
CREATE INDEX dash_session_active ON surveys.dash_session (survey_id, tenant_id, seen_at) WHERE state = 'active';
CREATE INDEX dash_session_ended ON surveys.dash_session (tenant_id, seen_at) WHERE state <> 'active';

-- The number of sessions per position and state.
CREATE TABLE surveys.dash_standing (
    tenant_id    text   NOT NULL,
    survey_id    uuid   NOT NULL,
    collector_id uuid   NOT NULL,
    page_id      text   NOT NULL,
    state        text   NOT NULL,
    page_index   int    NOT NULL,
    n            bigint NOT NULL,
    PRIMARY KEY (survey_id, collector_id, page_id, state, tenant_id)
) WITH (fillfactor = 50);
SELECT onceward_meta.protect('surveys.dash_standing');

-- The progress of counting.
CREATE TABLE surveys.dash_progress (
    tenant_id  text        NOT NULL,
    survey_id  uuid        NOT NULL,
    events     bigint      NOT NULL,
    -- When the newest event happened, and the delay until it was counted.
    newest_at  timestamptz NOT NULL,
    delay_ms   bigint      NOT NULL,
    PRIMARY KEY (survey_id, tenant_id)
) WITH (fillfactor = 50);
SELECT onceward_meta.protect('surveys.dash_progress');

-- A message that takes the same path as events while somebody views the survey. As long as it is not counted, counting lags behind.
CREATE TABLE surveys.dash_probe (
    tenant_id text        NOT NULL,
    survey_id uuid        NOT NULL,
    sent_at   timestamptz NOT NULL,
    -- The time at which the newest counted probe was sent.
    seen_at   timestamptz,
    PRIMARY KEY (survey_id, tenant_id)
) WITH (fillfactor = 50);
SELECT onceward_meta.protect('surveys.dash_probe');

-- Counts any number of events. Each is an object of `p_facts`: survey_id, collector_id, bucket_id, session_id, kind, detail (a reason or
-- the submitted page), stands_at and page_index (the session's position), at. The transaction that calls it also settles their messages.
CREATE FUNCTION surveys.dash_count(p_facts jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
    v_none   uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    -- A probe shows how far counting has come. It is not counted itself.
    UPDATE surveys.dash_probe p
    SET seen_at = greatest(p.seen_at, f.at)
    FROM (SELECT f.survey_id, max(f.at) AS at
          FROM jsonb_to_recordset(p_facts) AS f (survey_id uuid, kind text, at timestamptz)
          WHERE f.kind = 'probe'
          GROUP BY f.survey_id) f
    WHERE p.survey_id = f.survey_id AND p.tenant_id = v_tenant;

    INSERT INTO surveys.dash_tally AS t (tenant_id, survey_id, minute, collector_id, bucket_id, kind, detail, n)
    SELECT v_tenant, f.survey_id, date_trunc('minute', f.at), coalesce(f.collector_id, v_none), coalesce(f.bucket_id, v_none),
        f.kind, coalesce(f.detail, ''), count(*)
    FROM jsonb_to_recordset(p_facts)
        AS f (survey_id uuid, collector_id uuid, bucket_id uuid, kind text, detail text, at timestamptz)
    WHERE f.kind <> 'probe'
    GROUP BY 2, 3, 4, 5, 6, 7
    ON CONFLICT (survey_id, minute, kind, detail, collector_id, bucket_id, tenant_id) DO UPDATE
    SET n = t.n + excluded.n;

    INSERT INTO surveys.dash_progress AS p (tenant_id, survey_id, events, newest_at, delay_ms)
    SELECT v_tenant, f.survey_id, count(*), max(f.at), (extract(epoch FROM clock_timestamp() - max(f.at)) * 1000)::bigint
    FROM jsonb_to_recordset(p_facts) AS f (survey_id uuid, kind text, at timestamptz)
    WHERE f.kind <> 'probe'
    GROUP BY f.survey_id
    ON CONFLICT (survey_id, tenant_id) DO UPDATE
    SET events = p.events + excluded.events,
        newest_at = greatest(p.newest_at, excluded.newest_at),
        delay_ms = CASE WHEN excluded.newest_at >= p.newest_at THEN excluded.delay_ms ELSE p.delay_ms END;

    WITH news AS (
        SELECT f.session_id AS session, min(f.survey_id::text)::uuid AS survey, min(f.collector_id::text)::uuid AS collector,
            coalesce(max(f.page_index), -1) AS page_index,
            coalesce((array_agg(f.stands_at ORDER BY f.page_index DESC) FILTER (WHERE f.stands_at IS NOT NULL))[1], '') AS page_id,
            coalesce(max(CASE f.kind WHEN 'completed' THEN 'completed' WHEN 'terminated' THEN f.detail END), 'active') AS state,
            max(f.at) AS seen_at
        FROM jsonb_to_recordset(p_facts) AS f (
            survey_id uuid, collector_id uuid, session_id uuid, kind text, detail text, stands_at text, page_index int, at timestamptz)
        WHERE f.kind IN ('started', 'page', 'completed', 'terminated')
        GROUP BY f.session_id
    ), before AS (
        SELECT s.session_id, s.page_id, s.page_index, s.state
        FROM news n JOIN surveys.dash_session s ON s.session_id = n.session AND s.tenant_id = v_tenant
    ), after AS (
        INSERT INTO surveys.dash_session AS s (
            tenant_id, session_id, survey_id, collector_id, page_id, page_index, state, seen_at)
        SELECT v_tenant, n.session, n.survey, n.collector, n.page_id, n.page_index, n.state, n.seen_at FROM news n
        ON CONFLICT (session_id, tenant_id) DO UPDATE
        SET page_id = CASE WHEN excluded.page_index > s.page_index THEN excluded.page_id ELSE s.page_id END,
            page_index = greatest(s.page_index, excluded.page_index),
            state = CASE WHEN s.state = 'active' THEN excluded.state ELSE s.state END,
            seen_at = greatest(s.seen_at, excluded.seen_at)
        RETURNING s.session_id, s.survey_id, s.collector_id, s.page_id, s.page_index, s.state
    ), moves AS (
        SELECT a.survey_id, a.collector_id, a.page_id, a.page_index, a.state, 1 AS n FROM after a
        UNION ALL
        SELECT a.survey_id, a.collector_id, b.page_id, b.page_index, b.state, -1 FROM before b JOIN after a USING (session_id)
    )
    INSERT INTO surveys.dash_standing AS t (tenant_id, survey_id, collector_id, page_id, state, page_index, n)
    SELECT v_tenant, m.survey_id, m.collector_id, m.page_id, m.state, max(m.page_index), sum(m.n)
    FROM moves m
    GROUP BY m.survey_id, m.collector_id, m.page_id, m.state
    HAVING sum(m.n) <> 0
    ON CONFLICT (survey_id, collector_id, page_id, state, tenant_id) DO UPDATE
    SET n = t.n + excluded.n, page_index = greatest(t.page_index, excluded.page_index);
END
$$;

-- Returns the number of places taken beyond the buckets' limits, over all tenants, for the alert. While the table's own constraint
-- exists and is valid, the result is 0 and no bucket is read.
CREATE FUNCTION surveys.dash_overfill() RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_constraint c
        WHERE c.conrelid = 'surveys.quota_bucket'::regclass AND c.conname = 'quota_never_overfills' AND c.convalidated) THEN
        RETURN 0;
    END IF;
    RETURN (
        SELECT coalesce(sum(b.reserved_n + b.filled_n - b.limit_n), 0)
        FROM surveys.quota_bucket b
        WHERE b.reserved_n + b.filled_n > b.limit_n);
END
$$;

REVOKE EXECUTE ON FUNCTION surveys.dash_overfill FROM PUBLIC;
GRANT EXECUTE ON FUNCTION surveys.dash_count, surveys.dash_overfill TO onceward_app;
