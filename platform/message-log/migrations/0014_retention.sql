-- Retention: partitions of the log are opened, indexed and dropped, and expired rows are deleted.

-- Opens a new partition if the current one is old enough. Returns whether it did.
CREATE FUNCTION onceward.open_epoch(p_max_age interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch int;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19015, 0) THEN
        RETURN false;
    END IF;
    SELECT e.epoch + 1 INTO v_epoch
    FROM onceward.log_epoch e
    JOIN onceward.log_state s ON s.epoch = e.epoch
    WHERE e.opened_at < clock_timestamp() - p_max_age;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', '2s', true);
    EXECUTE format(
        'CREATE TABLE onceward.message_log_%s (LIKE onceward.message_log INCLUDING ALL) '
        'WITH (autovacuum_enabled = false)',
        v_epoch);
    EXECUTE format(
        'ALTER TABLE onceward.message_log ATTACH PARTITION onceward.message_log_%s FOR VALUES IN (%s)',
        v_epoch, v_epoch);
    UPDATE onceward.log_epoch SET closed_at = clock_timestamp()
    WHERE epoch = v_epoch - 1;
    INSERT INTO onceward.log_epoch (epoch)
    VALUES (v_epoch);
    UPDATE onceward.log_state SET epoch = v_epoch;
    RETURN true;
END
$$;

-- Drops the oldest partition that was closed longer ago than p_retention and that no lane still has to read.
-- Returns its number, or NULL if there is none.
CREATE FUNCTION onceward.drop_epoch(p_retention interval) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch  int;
    v_unread boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19015, 0) THEN
        RETURN NULL;
    END IF;
    SELECT e.epoch INTO v_epoch
    FROM onceward.log_epoch e
    WHERE e.closed_at < clock_timestamp() - p_retention
    ORDER BY e.epoch
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- Waits for open writers, so that the check sees what they commit.
    PERFORM set_config('lock_timeout', '500ms', true);
    EXECUTE format('LOCK TABLE onceward.message_log_%s IN SHARE MODE', v_epoch);
    EXECUTE format($q$
        SELECT EXISTS (
            SELECT
            FROM onceward.lane l
            LEFT JOIN LATERAL (
                SELECT t.last_seq, t.open_floors
                FROM onceward.lane_turn t
                WHERE t.lane_id = l.id
                ORDER BY t.turn DESC
                LIMIT 1) c ON true
            WHERE EXISTS (
                SELECT
                FROM onceward.message_log_%1$s m
                WHERE m.lane_id = l.id
                  AND m.seq > coalesce((SELECT min(f) FROM unnest(c.open_floors) AS f), c.last_seq, 0)))$q$,
        v_epoch)
    INTO v_unread;
    IF v_unread THEN
        RETURN NULL;
    END IF;
    EXECUTE format('DROP TABLE onceward.message_log_%s', v_epoch);
    DELETE FROM onceward.log_epoch
    WHERE epoch = v_epoch;
    RETURN v_epoch;
END
$$;

-- Deletes expired rows, at most p_limit of each kind. Returns their number.
CREATE FUNCTION onceward.forget(p_inbox_retention interval, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_oldest int;
    v_keys   bigint;
    v_longer bigint;
    v_inbox  bigint;
    v_relay  bigint;
    v_gone   bigint;
BEGIN
    SELECT min(epoch) INTO v_oldest
    FROM onceward.log_epoch;
    DELETE FROM onceward.message_key
    WHERE ctid = ANY (ARRAY(
        SELECT k.ctid
        FROM onceward.message_key k
        WHERE k.epoch < v_oldest
        LIMIT p_limit));
    GET DIAGNOSTICS v_keys = ROW_COUNT;
    DELETE FROM onceward.lasting_key
    WHERE digest = ANY (ARRAY(
        SELECT k.digest
        FROM onceward.lasting_key k
        WHERE k.keep_until < clock_timestamp()
        ORDER BY k.keep_until
        LIMIT p_limit));
    GET DIAGNOSTICS v_longer = ROW_COUNT;
    DELETE FROM onceward.inbox
    WHERE ctid = ANY (ARRAY(
        SELECT i.ctid
        FROM onceward.inbox i
        WHERE i.received_at < clock_timestamp() - p_inbox_retention
        LIMIT p_limit));
    GET DIAGNOSTICS v_inbox = ROW_COUNT;
    DELETE FROM onceward.relay_batch
    WHERE ctid = ANY (ARRAY(
        SELECT b.ctid
        FROM onceward.relay_batch b
        WHERE b.published_at < (SELECT opened_at FROM onceward.log_epoch WHERE epoch = v_oldest)
        LIMIT p_limit));
    GET DIAGNOSTICS v_relay = ROW_COUNT;
    DELETE FROM onceward.cancelled_arrival
    WHERE ctid = ANY (ARRAY(
        SELECT c.ctid
        FROM onceward.cancelled_arrival c
        WHERE c.at < (SELECT opened_at FROM onceward.log_epoch WHERE epoch = v_oldest)
        LIMIT p_limit));
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    RETURN v_keys + v_longer + v_inbox + v_relay + v_gone;
END
$$;

-- Deletes letters that were requeued longer ago than p_retention, at most p_limit of them. Nothing is lost by
-- that: all other letters stay, and so does the history.
CREATE FUNCTION onceward.forget_letters(p_retention interval, p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_before  timestamptz := clock_timestamp() - p_retention;
    v_letters bigint;
BEGIN
    DELETE FROM onceward.dead_letters
    WHERE id = ANY (ARRAY(
        SELECT d.id
        FROM onceward.dead_letters d
        WHERE d.status = 'requeued'
          AND d.dead_at < v_before
          AND NOT EXISTS (
              SELECT
              FROM onceward.dead_letter_act a
              WHERE a.dead_letter_id = d.id AND a.at >= v_before)
        LIMIT p_limit));
    GET DIAGNOSTICS v_letters = ROW_COUNT;
    RETURN v_letters;
END
$$;

-- Deletes attempts from before the beginning of the log, at most p_limit of them. Returns their number.
-- Letters have their own copy.
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

-- Sets the event types whose keys are remembered for longer than their partition, and for how many days.
-- Publishers read this with the topology, so a change counts as a change of the topology. Returns whether it
-- changed.
CREATE FUNCTION onceward.set_key_days(p_key_days jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE onceward.log_state
    SET key_days = p_key_days,
        topology_version = topology_version + 1
    WHERE key_days <> p_key_days;
    RETURN FOUND;
END
$$;

-- Records the value of the sequence now, unless it was recorded less than p_every ago.
CREATE FUNCTION onceward.mark_log(p_every interval) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_seq bigint;
BEGIN
    IF EXISTS (SELECT FROM onceward.log_mark WHERE at > clock_timestamp() - p_every) THEN
        RETURN;
    END IF;
    -- The number first and then the time: in the other order a message in between would be missed.
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END INTO v_seq
    FROM onceward.message_seq s;
    INSERT INTO onceward.log_mark (at, seq)
    VALUES (clock_timestamp(), v_seq)
    ON CONFLICT DO NOTHING;
    DELETE FROM onceward.log_mark
    WHERE at < (SELECT min(opened_at) FROM onceward.log_epoch) - interval '1 hour';
END
$$;

-- A partition that closed long enough ago to have no writers, and has no index yet. The attempt is recorded
-- beforehand, so that an index that cannot be built is attempted less and less often.
CREATE FUNCTION onceward.epoch_to_index(p_settled interval) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_epoch int;
BEGIN
    IF NOT pg_try_advisory_xact_lock(19014, 0) THEN
        RETURN NULL;
    END IF;
    UPDATE onceward.log_epoch SET index_tries = index_tries + 1
    WHERE epoch = (
        SELECT e.epoch
        FROM onceward.log_epoch e
        WHERE e.indexed_at IS NULL
          AND e.closed_at < clock_timestamp() - p_settled * (1 + e.index_tries * e.index_tries)
        ORDER BY e.epoch DESC
        LIMIT 1)
    RETURNING epoch INTO v_epoch;
    RETURN v_epoch;
END
$$;

-- Builds the indexes of a partition. No transaction writes to it any more; if one does, this fails
-- immediately.
CREATE FUNCTION onceward.index_epoch(p_epoch int) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(19014, 0) THEN
        RETURN false;
    END IF;
    PERFORM set_config('lock_timeout', '500ms', true);
    EXECUTE format('
        CREATE INDEX IF NOT EXISTS message_log_%1$s_correlation_uuid
        ON onceward.message_log_%1$s (correlation_uuid)
        WHERE correlation_uuid IS NOT NULL', p_epoch);
    EXECUTE format('
        CREATE INDEX IF NOT EXISTS message_log_%1$s_correlation_id
        ON onceward.message_log_%1$s (correlation_id)
        WHERE correlation_id IS NOT NULL', p_epoch);
    UPDATE onceward.log_epoch SET indexed_at = clock_timestamp()
    WHERE epoch = p_epoch;
    RETURN true;
END
$$;
