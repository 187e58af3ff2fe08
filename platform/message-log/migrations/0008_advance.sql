-- Advance: a turn ends, and its lanes get their next positions.

-- Writes the next turn of each lane. The primary key refuses a second writer of the same turn. Older turns
-- are deleted, so a writer that is further behind is detected by finding a later turn and none before its
-- own. Rows are looked up by LATERAL ... OFFSET 0, which cannot become a join: these tables are small and
-- full of dead rows, and a join would read all of them.
CREATE FUNCTION onceward.advance(
    p_lanes int[], p_turns bigint[], p_last_seqs bigint[], p_open_xids text[], p_open_floors text[],
    p_careful_until bigint[])
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    v_before int;
BEGIN
    INSERT INTO onceward.lane_turn (lane_id, turn, last_seq, open_xids, open_floors, careful_until)
    SELECT a.lane, a.turn, a.last_seq, a.xids::xid8[], a.floors::bigint[], a.careful
    FROM unnest(p_lanes, p_turns, p_last_seqs, p_open_xids, p_open_floors, p_careful_until)
        AS a(lane, turn, last_seq, xids, floors, careful);
    DELETE FROM onceward.lane_turn
    WHERE ctid = ANY (ARRAY(
        SELECT t.ctid
        FROM unnest(p_lanes, p_turns) AS a(lane, turn)
        CROSS JOIN LATERAL (
            SELECT b.ctid
            FROM onceward.lane_turn b
            WHERE b.lane_id = a.lane AND b.turn = a.turn - 1
            OFFSET 0) t));
    GET DIAGNOSTICS v_before = ROW_COUNT;
    IF v_before < cardinality(p_lanes) AND EXISTS (
        SELECT
        FROM unnest(p_lanes, p_turns) AS a(lane, turn)
        CROSS JOIN LATERAL (
            SELECT
            FROM onceward.lane_turn t
            WHERE t.lane_id = a.lane AND t.turn > a.turn
            OFFSET 0) later)
    THEN
        RAISE EXCEPTION 'other workers took later turns in this lane' USING ERRCODE = 'unique_violation';
    END IF;
    DELETE FROM onceward.turn_start
    WHERE ctid = ANY (ARRAY(
        SELECT t.ctid
        FROM unnest(p_lanes, p_turns) AS a(lane, turn)
        CROSS JOIN LATERAL (
            SELECT b.ctid
            FROM onceward.turn_start b
            WHERE b.lane_id = a.lane AND b.turn = a.turn
            OFFSET 0) t));
END
$$;

-- Advances lanes of the outbox: the messages that were read have been published.
CREATE FUNCTION onceward.advance_outbox(
    p_lanes int[], p_turns bigint[], p_last_seqs bigint[], p_open_xids text[], p_open_floors text[],
    p_careful_until bigint[])
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    PERFORM onceward.advance(p_lanes, p_turns, p_last_seqs, p_open_xids, p_open_floors, p_careful_until);
    INSERT INTO onceward.relay_batch (lane_id, last_seq)
    SELECT *
    FROM unnest(p_lanes, p_last_seqs)
    ON CONFLICT DO NOTHING;
END
$$;

-- Forgets cancelled messages that this turn passed.
CREATE FUNCTION onceward.pass_cancelled(p_lanes int[], p_seqs bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    DELETE FROM onceward.cancelled k
    USING unnest(p_lanes, p_seqs) AS a(lane, seq)
    WHERE k.lane_id = a.lane AND k.seq = a.seq
$$;
