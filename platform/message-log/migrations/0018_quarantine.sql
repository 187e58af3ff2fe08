-- Quarantine and collect: dead letters are set aside, and those of an external bus are stored here.

-- Quarantines letters under a tag and returns the outcome of each. One that holds its key still holds it:
-- `followers` is how many messages wait behind it.
CREATE FUNCTION onceward.quarantine(p_ids bigint[], p_tag text, p_actor text, p_why text)
    RETURNS TABLE (
        id bigint, refusal text, queue text, tenant_id text, event_id uuid, event_type text, version int,
        ordering_key text, followers bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('lock_timeout', '10s', true);
    PERFORM
    FROM onceward.dead_letters d
    WHERE d.id = ANY (p_ids) AND onceward.sees(d.tenant_id)
    ORDER BY d.id
    FOR UPDATE;
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.nth, a.id,
               CASE WHEN d.id IS NULL THEN 'missing' WHEN d.status <> 'dead' THEN d.status END AS refusal,
               d.queue, d.tenant_id, d.event_id, d.event_type, d.version, d.ordering_key
        FROM unnest(p_ids) WITH ORDINALITY AS a(id, nth)
        LEFT JOIN onceward.dead_letters d ON d.id = a.id AND onceward.sees(d.tenant_id)),
    marked AS (
        UPDATE onceward.dead_letters d SET status = 'quarantined', tag = p_tag
        FROM asked a
        WHERE d.id = a.id AND a.refusal IS NULL),
    noted AS (
        INSERT INTO onceward.dead_letter_act (
            dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, tag)
        SELECT a.id, a.tenant_id, a.queue, a.event_type, a.version, 'quarantined', p_actor, p_why, p_tag
        FROM asked a
        WHERE a.refusal IS NULL
        ORDER BY a.nth)
    SELECT a.id, a.refusal, a.queue, a.tenant_id, a.event_id, a.event_type, a.version, a.ordering_key,
           onceward.followers(a.id)
    FROM asked a
    ORDER BY a.nth;
END
$$;

-- Stores a message that an external bus had dead-lettered, unless it landed or was collected before. Returns
-- the letter's id. Both are recorded in the same inbox row, so that a message is never handled twice.
CREATE FUNCTION onceward.collect(p_letter jsonb, p_key text, p_actor text, p_why text, p_detail jsonb)
    RETURNS bigint
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
    INSERT INTO onceward.dead_letter_act (
        dead_letter_id, tenant_id, queue, event_type, version, act, actor, why, detail)
    SELECT d.id, d.tenant_id, d.queue, d.event_type, d.version, 'collected', p_actor, p_why, p_detail
    FROM onceward.dead_letters d
    WHERE d.id = v_id;
    RETURN v_id;
END
$$;
