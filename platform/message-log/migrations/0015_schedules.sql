-- Schedules: the process that locks the row publishes the tick.

-- Declares a schedule. One that is declared differently than before starts anew at p_next.
CREATE FUNCTION onceward.declare_schedule(p_name text, p_definition jsonb, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    INSERT INTO onceward.schedule AS s (name, definition, next_at)
    VALUES (p_name, p_definition, p_next)
    ON CONFLICT (name) DO UPDATE
    SET definition = EXCLUDED.definition,
        next_at = EXCLUDED.next_at,
        failures = 0,
        failing_since = NULL,
        last_error = NULL
    WHERE s.definition <> EXCLUDED.definition
$$;

-- Locks and returns the schedules that are due. `now`, the database's clock, decides what is due: the clocks
-- of instances may differ.
CREATE FUNCTION onceward.due_schedules(p_names text[])
    RETURNS TABLE (name text, next_at timestamptz, now timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT s.name, s.next_at, clock_timestamp()
    FROM onceward.schedule s
    WHERE s.name = ANY (p_names) AND s.next_at <= clock_timestamp()
    ORDER BY s.next_at
    FOR UPDATE SKIP LOCKED
$$;

-- Records that a schedule's ticks were published, and when the next one is due.
CREATE FUNCTION onceward.ticked(p_name text, p_last timestamptz, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE onceward.schedule
    SET last_at = coalesce(p_last, last_at),
        next_at = p_next,
        failures = 0,
        failing_since = NULL,
        last_error = NULL
    WHERE name = p_name
$$;

-- Records that a schedule's ticks could not be published. Returns the number of failures since the last
-- success.
CREATE FUNCTION onceward.schedule_failed(p_name text, p_error text) RETURNS int
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    UPDATE onceward.schedule
    SET failures = least(failures, 2147483646) + 1,
        failing_since = coalesce(failing_since, clock_timestamp()),
        last_error = left(p_error, 1000)
    WHERE name = p_name
    RETURNING failures
$$;
