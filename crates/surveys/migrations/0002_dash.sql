-- What the live view shows, counted from events. One lane a tenant counts, so that nobody waits for anybody's row.

-- Events of each minute in which they happened. The nil id stands for "none", since keys hold no NULL.
CREATE TABLE surveys.dash_tally (
    tenant_id    text        NOT NULL,
    survey_id    uuid        NOT NULL,
    minute       timestamptz NOT NULL,
    collector_id uuid        NOT NULL,
    bucket_id    uuid        NOT NULL,
    kind         text        NOT NULL,
    -- A reason, or a page.
    detail       text        NOT NULL,
    n            bigint      NOT NULL,
    PRIMARY KEY (survey_id, minute, kind, detail, collector_id, bucket_id, tenant_id)
) WITH (fillfactor = 70);
SELECT onceward_meta.protect('surveys.dash_tally');

-- How far each session is known to have come. Events may arrive in any order: a page further on wins, and an end is an end.
CREATE TABLE surveys.dash_session (
    tenant_id    text NOT NULL,
    session_id   uuid NOT NULL,
    survey_id    uuid NOT NULL,
    collector_id uuid NOT NULL,
    page_id      text NOT NULL,
    page_index   int  NOT NULL,
    state        text NOT NULL,
    PRIMARY KEY (session_id, tenant_id)
) WITH (fillfactor = 70);
SELECT onceward_meta.protect('surveys.dash_session');

-- How many sessions stand where: the last page that they submitted, and what became of them.
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

-- How far the counting is.
CREATE TABLE surveys.dash_progress (
    tenant_id  text        NOT NULL,
    survey_id  uuid        NOT NULL,
    events     bigint      NOT NULL,
    -- When the newest event happened, and how long after that it was counted.
    newest_at  timestamptz NOT NULL,
    delay_ms   bigint      NOT NULL,
    PRIMARY KEY (survey_id, tenant_id)
) WITH (fillfactor = 50);
SELECT onceward_meta.protect('surveys.dash_progress');

-- Counts facts, any number at once. The transaction that calls it also settles their messages.
CREATE FUNCTION surveys.dash_count(
    p_survey uuid[], p_collector uuid[], p_bucket uuid[], p_session uuid[], p_kind text[], p_detail text[], p_page int[],
    p_at timestamptz[])
    RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text := onceward_meta.current_tenant();
    v_none   uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    INSERT INTO surveys.dash_tally AS t (tenant_id, survey_id, minute, collector_id, bucket_id, kind, detail, n)
    SELECT v_tenant, f.survey, date_trunc('minute', f.at), coalesce(f.collector, v_none), coalesce(f.bucket, v_none), f.kind,
        coalesce(f.detail, ''), count(*)
    FROM unnest(p_survey, p_collector, p_bucket, p_kind, p_detail, p_at) AS f (survey, collector, bucket, kind, detail, at)
    GROUP BY 2, 3, 4, 5, 6, 7
    ON CONFLICT (survey_id, minute, kind, detail, collector_id, bucket_id, tenant_id) DO UPDATE SET n = t.n + excluded.n;

    INSERT INTO surveys.dash_progress AS p (tenant_id, survey_id, events, newest_at, delay_ms)
    SELECT v_tenant, f.survey, count(*), max(f.at), (extract(epoch FROM clock_timestamp() - max(f.at)) * 1000)::bigint
    FROM unnest(p_survey, p_at) AS f (survey, at) GROUP BY f.survey
    ON CONFLICT (survey_id, tenant_id) DO UPDATE
    SET events = p.events + excluded.events, newest_at = greatest(p.newest_at, excluded.newest_at),
        delay_ms = CASE WHEN excluded.newest_at >= p.newest_at THEN excluded.delay_ms ELSE p.delay_ms END;

    WITH news AS (
        SELECT f.session, min(f.survey::text)::uuid AS survey, min(f.collector::text)::uuid AS collector,
            coalesce(max(f.page), -1) AS page_index,
            coalesce((array_agg(f.detail ORDER BY f.page DESC) FILTER (WHERE f.kind = 'page'))[1], '') AS page_id,
            coalesce(max(CASE f.kind WHEN 'completed' THEN 'completed' WHEN 'terminated' THEN f.detail END), 'active') AS state
        FROM unnest(p_survey, p_collector, p_session, p_kind, p_detail, p_page) AS f (survey, collector, session, kind, detail, page)
        WHERE f.kind IN ('started', 'page', 'completed', 'terminated')
        GROUP BY f.session
    ), before AS (
        SELECT s.session_id, s.page_id, s.page_index, s.state
        FROM news n JOIN surveys.dash_session s ON s.session_id = n.session AND s.tenant_id = v_tenant
    ), after AS (
        INSERT INTO surveys.dash_session AS s (tenant_id, session_id, survey_id, collector_id, page_id, page_index, state)
        SELECT v_tenant, n.session, n.survey, n.collector, n.page_id, n.page_index, n.state FROM news n
        ON CONFLICT (session_id, tenant_id) DO UPDATE
        SET page_id = CASE WHEN excluded.page_index > s.page_index THEN excluded.page_id ELSE s.page_id END,
            page_index = greatest(s.page_index, excluded.page_index),
            state = CASE WHEN s.state = 'active' THEN excluded.state ELSE s.state END
        RETURNING s.session_id, s.survey_id, s.collector_id, s.page_id, s.page_index, s.state
    ), moves AS (
        SELECT a.survey_id, a.collector_id, a.page_id, a.page_index, a.state, 1 AS n FROM after a
        UNION ALL
        SELECT a.survey_id, a.collector_id, b.page_id, b.page_index, b.state, -1 FROM before b JOIN after a USING (session_id)
    )
    INSERT INTO surveys.dash_standing AS t (tenant_id, survey_id, collector_id, page_id, state, page_index, n)
    SELECT v_tenant, m.survey_id, m.collector_id, m.page_id, m.state, max(m.page_index), sum(m.n)
    FROM moves m GROUP BY m.survey_id, m.collector_id, m.page_id, m.state HAVING sum(m.n) <> 0
    ON CONFLICT (survey_id, collector_id, page_id, state, tenant_id) DO UPDATE
    SET n = t.n + excluded.n, page_index = greatest(t.page_index, excluded.page_index);
END
$$;

-- Places taken beyond what buckets allow, over all tenants. The table's own constraint keeps it at 0; this is for the alert.
CREATE FUNCTION surveys.dash_overfill() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
SELECT coalesce(sum(greatest(b.reserved_n + b.filled_n - b.limit_n, 0)), 0)::bigint FROM surveys.quota_bucket b
WHERE b.reserved_n + b.filled_n > b.limit_n
$$;

REVOKE EXECUTE ON FUNCTION surveys.dash_overfill FROM PUBLIC;
GRANT EXECUTE ON FUNCTION surveys.dash_count, surveys.dash_overfill TO onceward_app;
