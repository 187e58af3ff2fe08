-- The adoption's own tables and functions. The legacy tables stay where they are.

-- The legacy schema that is adopted, and the tenant and exchange it maps to. At most one row.
CREATE TABLE adoption.shape (
    only_one    boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    schema_name text        NOT NULL,
    tenant      text        NOT NULL,
    exchange    text,
    began_at    timestamptz NOT NULL DEFAULT now()
);

-- Schema changes that are done.
CREATE TABLE adoption.step (
    name    text        PRIMARY KEY,
    done_at timestamptz NOT NULL DEFAULT now()
);

-- Progress of the steps that process rows. Updated in the transaction that processes them.
CREATE TABLE adoption.progress (
    name       text        PRIMARY KEY,
    last_id    bigint      NOT NULL,
    up_to      bigint      NOT NULL,
    rows_done  bigint      NOT NULL DEFAULT 0,
    is_done    boolean     NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Values that could not be migrated. They stay unchanged in the legacy tables.
CREATE TABLE adoption.finding (
    table_name  text        NOT NULL,
    row_id      bigint      NOT NULL,
    column_name text        NOT NULL,
    value       text,
    reason      text        NOT NULL,
    found_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_name, row_id, column_name)
);

-- Messages of the legacy outbox that were published, and their event ids.
CREATE TABLE adoption.handed_over (
    outbox_id bigint      PRIMARY KEY,
    event_id  uuid        NOT NULL,
    at        timestamptz NOT NULL DEFAULT now()
);

-- Rows that were imported into lending, and their ids there.
CREATE TABLE adoption.brought (
    table_name text        NOT NULL,
    row_id     bigint      NOT NULL,
    new_id     uuid        NOT NULL,
    at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (table_name, row_id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON adoption.brought, adoption.finding TO onceward_app;

-- Returns the shortest decimal that parses to the same float: the value that was written, if it was a short decimal.
CREATE FUNCTION adoption.exact(p double precision) RETURNS numeric
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET extra_float_digits = 1
    AS $$ SELECT CASE WHEN p IN ('NaN', 'Infinity', '-Infinity') THEN NULL ELSE p::text::numeric END $$;

-- Returns why an amount has no exact value in minor units, or NULL if it has one.
CREATE FUNCTION adoption.unfit(p double precision, p_below_zero boolean) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE
        WHEN p IS NULL THEN NULL
        WHEN p = 'NaN' THEN 'not a number'
        WHEN p IN ('Infinity', '-Infinity') THEN 'infinite'
        -- From 2^46 on, adjacent floats are more than a hundredth apart, so that one float represents several amounts.
        WHEN abs(p) >= 70368744177664 THEN 'too large for a float to represent hundredths'
        WHEN scale(trim_scale(adoption.exact(p))) > 2 THEN 'more than two decimals'
        WHEN p < 0 AND NOT p_below_zero THEN 'negative'
    END $$;

CREATE FUNCTION adoption.to_minor(p double precision, p_below_zero boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN adoption.unfit(p, p_below_zero) IS NULL THEN (adoption.exact(p) * 100)::bigint END $$;

-- Keeps amount and amount_minor in step, whichever is written; the rule for amounts is defined only here. SECURITY
-- DEFINER, because the old program has no rights in this schema.
CREATE FUNCTION adoption.keep_in_step() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_below_zero boolean := TG_ARGV[0]::boolean;
    v_by_minor   boolean;
    v_reason     text;
BEGIN
    IF TG_OP = 'INSERT' THEN
        v_by_minor := NEW.amount IS NULL AND NEW.amount_minor IS NOT NULL;
    ELSE
        v_by_minor := NEW.amount IS NOT DISTINCT FROM OLD.amount AND NEW.amount_minor IS DISTINCT FROM OLD.amount_minor;
    END IF;
    IF v_by_minor THEN
        NEW.amount := NEW.amount_minor::numeric / 100;
    END IF;
    v_reason := adoption.unfit(NEW.amount, v_below_zero);
    IF v_by_minor AND (v_reason IS NOT NULL OR adoption.to_minor(NEW.amount, v_below_zero) IS DISTINCT FROM NEW.amount_minor) THEN
        RAISE EXCEPTION 'amount_minor % cannot be stored in the old column amount: %', NEW.amount_minor, coalesce(v_reason, 'not exact');
    END IF;
    NEW.amount_minor := adoption.to_minor(NEW.amount, v_below_zero);
    IF v_reason IS NOT NULL THEN
        INSERT INTO adoption.finding (table_name, row_id, column_name, value, reason)
        VALUES (TG_TABLE_NAME, NEW.id, 'amount', NEW.amount::text, v_reason)
        ON CONFLICT (table_name, row_id, column_name) DO UPDATE SET value = excluded.value, reason = excluded.reason;
    ELSIF TG_OP = 'UPDATE' THEN
        DELETE FROM adoption.finding WHERE table_name = TG_TABLE_NAME AND row_id = OLD.id AND column_name = 'amount';
    END IF;
    RETURN NEW;
END
$$;

-- Deletes the findings of a deleted row.
CREATE FUNCTION adoption.forget() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    DELETE FROM adoption.finding WHERE table_name = TG_TABLE_NAME AND row_id = OLD.id;
    RETURN NULL;
END
$$;

-- Returns the id range of the next rows of a step, at most p_batch rows. v_to is NULL if there are none.
CREATE FUNCTION adoption.next_batch(p_name text, p_schema text, p_table text, p_batch int, OUT v_from bigint, OUT v_to bigint)
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_up_to bigint;
BEGIN
    SELECT last_id, up_to INTO v_from, v_up_to FROM adoption.progress WHERE name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        EXECUTE format('SELECT coalesce(min(id), 1) - 1, coalesce(max(id), 0) FROM %I.%I', p_schema, p_table) INTO v_from, v_up_to;
        INSERT INTO adoption.progress (name, last_id, up_to) VALUES (p_name, v_from, v_up_to);
    END IF;
    EXECUTE format('SELECT max(id) FROM (SELECT id FROM %I.%I WHERE id > $1 AND id <= $2 ORDER BY id LIMIT $3) AS batch',
        p_schema, p_table) INTO v_to USING v_from, v_up_to, p_batch;
    UPDATE adoption.progress SET is_done = v_to IS NULL, last_id = coalesce(v_to, last_id), updated_at = now() WHERE name = p_name;
END
$$;

-- Fills amount_minor of the next rows: updating them fires the trigger, which sets it. Returns false if there are no
-- more rows.
CREATE FUNCTION adoption.backfill(p_schema text, p_table text, p_batch int) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_name  text := 'amounts of ' || p_table;
    v_batch record;
    v_rows  bigint;
BEGIN
    SELECT * INTO v_batch FROM adoption.next_batch(v_name, p_schema, p_table, p_batch);
    IF v_batch.v_to IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('UPDATE %I.%I SET amount_minor = amount_minor WHERE id > $1 AND id <= $2 AND amount IS NOT NULL AND amount_minor IS NULL',
        p_schema, p_table) USING v_batch.v_from, v_batch.v_to;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    UPDATE adoption.progress SET rows_done = rows_done + v_rows WHERE name = v_name;
    RETURN true;
END
$$;

-- Lists those of the next rows that refer to a missing row. Returns false if there are no more rows.
CREATE FUNCTION adoption.look_for_missing(p_schema text, p_table text, p_column text, p_target text, p_batch int) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_name  text := 'references of ' || p_table;
    v_batch record;
BEGIN
    SELECT * INTO v_batch FROM adoption.next_batch(v_name, p_schema, p_table, p_batch);
    IF v_batch.v_to IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('INSERT INTO adoption.finding (table_name, row_id, column_name, value, reason)
        SELECT %2$L, r.id, %3$L, r.%3$I::text, ''refers to a row that does not exist'' FROM %1$I.%2$I AS r
        WHERE r.id > $1 AND r.id <= $2 AND r.%3$I IS NOT NULL
          AND NOT EXISTS (SELECT FROM %1$I.%4$I AS t WHERE t.id = r.%3$I)
        ON CONFLICT (table_name, row_id, column_name) DO UPDATE SET value = excluded.value',
        p_schema, p_table, p_column, p_target) USING v_batch.v_from, v_batch.v_to;
    UPDATE adoption.progress SET rows_done = rows_done + p_batch WHERE name = v_name;
    RETURN true;
END
$$;

-- Publishes one message of the legacy outbox. Returns NULL if it is invalid; it is listed then.
CREATE FUNCTION adoption.hand_over(p_id bigint, p_topic text, p_payload json) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    v_shape adoption.shape%ROWTYPE;
    v_type  text := CASE WHEN p_topic ~ '\.v[0-9]+$' THEN p_topic ELSE p_topic || '.v1' END;
    v_event uuid;
BEGIN
    SELECT * INTO v_shape FROM adoption.shape;
    -- Messages are ordered by topic: legacy readers processed the messages of a topic one after the other.
    v_event := onceward.enqueue(v_shape.tenant,
        format('%s:tenant.%s.%s', v_shape.exchange, v_shape.tenant, regexp_replace(p_topic, '\.v[0-9]+$', '')),
        v_type, p_payload::jsonb, 'legacy-outbox:' || p_id, p_ordering_key => left('legacy:' || p_topic, 255));
    INSERT INTO adoption.handed_over (outbox_id, event_id) VALUES (p_id, v_event);
    DELETE FROM adoption.finding WHERE table_name = 'outbox' AND row_id = p_id;
    RETURN v_event;
EXCEPTION WHEN SQLSTATE 'OW002' OR data_exception THEN
    INSERT INTO adoption.finding (table_name, row_id, column_name, value, reason)
    VALUES ('outbox', p_id, 'payload', left(p_topic, 255), left(SQLERRM, 500)) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

-- Publishes the oldest waiting messages, at most p_batch. Returns the number processed. Listed messages stay
-- unpublished.
CREATE FUNCTION adoption.drain(p_schema text, p_batch int) RETURNS int
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_row  record;
    v_rows int := 0;
BEGIN
    FOR v_row IN EXECUTE format('SELECT id, topic, payload FROM %I.outbox AS o WHERE published_at IS NULL
        AND NOT EXISTS (SELECT FROM adoption.finding WHERE table_name = ''outbox'' AND row_id = o.id)
        ORDER BY id LIMIT $1 FOR UPDATE', p_schema) USING p_batch
    LOOP
        IF adoption.hand_over(v_row.id, v_row.topic, v_row.payload) IS NOT NULL THEN
            EXECUTE format('UPDATE %I.outbox SET published_at = now() WHERE id = $1', p_schema) USING v_row.id;
        END IF;
        v_rows := v_rows + 1;
    END LOOP;
    RETURN v_rows;
END
$$;

-- Publishes a message that the old program writes to its outbox in the same transaction. The old publisher finds none
-- left.
CREATE FUNCTION adoption.publish_at_once() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF NEW.published_at IS NULL AND adoption.hand_over(NEW.id, NEW.topic, NEW.payload) IS NOT NULL THEN
        NEW.published_at := now();
    END IF;
    RETURN NEW;
END
$$;
