-- The audit trail: one chain of hashes per tenant, written by audit.append alone.
--
--     record_hash = sha256(prev_hash || int8send(seq) || convert_to(document, 'UTF8'))
--
-- prev_hash is the record_hash of the entry before, or 32 zero bytes for the first; int8send returns 8 bytes, the highest
-- first. The document is canonical JSON (RFC 8785) and contains the whole entry; the columns beside it repeat parts of it for
-- lookups, and verification compares them.

CREATE TABLE audit.entry (
    tenant_id      text        NOT NULL CHECK (tenant_id ~ '^[A-Za-z0-9_-]{1,64}$'),
    seq            bigint      NOT NULL CHECK (seq > 0),
    occurred_at    timestamptz NOT NULL,
    event_type     text        NOT NULL CHECK (event_type <> '' AND length(event_type) <= 255),
    actor          text,
    object_type    text        CHECK (length(object_type) <= 255),
    object_id      text        CHECK (length(object_id) <= 255),
    loan_id        text        CHECK (length(loan_id) <= 255),
    correlation_id text        NOT NULL CHECK (length(correlation_id) <= 255),
    document       text        NOT NULL,
    prev_hash      bytea       NOT NULL CHECK (octet_length(prev_hash) = 32),
    record_hash    bytea       NOT NULL CHECK (octet_length(record_hash) = 32),
    PRIMARY KEY (tenant_id, seq)
);
CREATE INDEX entry_by_object ON audit.entry (object_id, tenant_id, object_type, seq);
CREATE INDEX entry_by_loan ON audit.entry (loan_id, tenant_id, seq) WHERE loan_id IS NOT NULL;
CREATE INDEX entry_by_correlation ON audit.entry (correlation_id, tenant_id, seq);
CREATE INDEX entry_by_time ON audit.entry (tenant_id, occurred_at, seq);
SELECT onceward_meta.protect('audit.entry', 'SELECT');

-- The end of each chain: one row per tenant, locked while entries are appended. The number is part of the key, so that a
-- search from the end finds the newest version of a row first. With the tenant alone as the key, a search would have to read
-- every version that an old snapshot still keeps, and would slow down for as long as a backup runs.
CREATE TABLE audit.head (
    tenant_id text        NOT NULL,
    seq       bigint      NOT NULL CHECK (seq >= 0),
    hash      bytea       NOT NULL CHECK (octet_length(hash) = 32),
    moved_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
SELECT onceward_meta.protect('audit.head', 'SELECT');

CREATE FUNCTION audit.refuse_rewriting() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail in %.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'OW003';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit.entry
    FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_rewriting();
ALTER TABLE audit.entry ENABLE ALWAYS TRIGGER append_only;
CREATE TRIGGER kept BEFORE DELETE OR TRUNCATE ON audit.head
    FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_rewriting();
ALTER TABLE audit.head ENABLE ALWAYS TRIGGER kept;

-- Returns the head of a chain, locked until the transaction ends. An advisory lock serialises two first entries.
CREATE FUNCTION audit.lock_head(p_tenant text, OUT seq bigint, OUT hash bytea)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    SELECT h.seq, h.hash INTO seq, hash FROM audit.head h WHERE h.tenant_id = p_tenant ORDER BY h.seq DESC LIMIT 1 FOR UPDATE;
    IF FOUND THEN RETURN; END IF;
    PERFORM pg_advisory_xact_lock(19016, hashtext(p_tenant));
    SELECT h.seq, h.hash INTO seq, hash FROM audit.head h WHERE h.tenant_id = p_tenant ORDER BY h.seq DESC LIMIT 1 FOR UPDATE;
    IF FOUND THEN RETURN; END IF;
    seq := 0;
    hash := decode(repeat('00', 32), 'hex');
    INSERT INTO audit.head (tenant_id, seq, hash, moved_at) VALUES (p_tenant, seq, hash, clock_timestamp());
END
$$;

-- Appends documents to the chains of the tenants that they name, each tenant's in the given order. Call it last in a
-- transaction: other transactions that append for the same tenants wait for its end. Tenants are locked in the order of their
-- names, so that two callers cannot deadlock.
CREATE FUNCTION audit.append(p_documents text[]) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    -- The head is found by its key, whatever the statistics suggest.
    SET enable_seqscan = off SET enable_bitmapscan = off
    AS $$
DECLARE
    v_parsed jsonb[];
    v_order  int[];
    v_seqs   bigint[] := array_fill(0::bigint, ARRAY[cardinality(p_documents)]);
    v_prevs  bytea[] := array_fill(''::bytea, ARRAY[cardinality(p_documents)]);
    v_hashes bytea[] := v_prevs;
    v_tenant text;
    v_next   text;
    v_first  bigint;
    v_seq    bigint;
    v_hash   bytea;
    i        int;
BEGIN
    -- Everything that does not need the lock is done before it.
    SELECT array_agg(d.document::jsonb ORDER BY d.nth) INTO v_parsed FROM unnest(p_documents) WITH ORDINALITY AS d(document, nth);
    SELECT array_agg(d.nth ORDER BY d.parsed->>'tenantId' COLLATE "C", d.nth) INTO v_order
    FROM unnest(v_parsed) WITH ORDINALITY AS d(parsed, nth);
    FOREACH i IN ARRAY coalesce(v_order, '{}') LOOP
        v_next := v_parsed[i]->>'tenantId';
        IF v_next IS NULL THEN
            RAISE EXCEPTION 'an audit entry has no tenantId' USING ERRCODE = 'OW004';
        END IF;
        IF v_next IS DISTINCT FROM v_tenant THEN
            IF v_tenant IS NOT NULL THEN
                UPDATE audit.head h SET seq = v_seq, hash = v_hash, moved_at = clock_timestamp()
                WHERE h.tenant_id = v_tenant AND h.seq = v_first;
            END IF;
            SELECT l.seq, l.hash INTO v_first, v_hash FROM audit.lock_head(v_next) l;
            v_seq := v_first;
            v_tenant := v_next;
        END IF;
        v_seq := v_seq + 1;
        v_seqs[i] := v_seq;
        v_prevs[i] := v_hash;
        v_hash := sha256(v_hash || int8send(v_seq) || convert_to(p_documents[i], 'UTF8'));
        v_hashes[i] := v_hash;
    END LOOP;
    UPDATE audit.head h SET seq = v_seq, hash = v_hash, moved_at = clock_timestamp()
    WHERE h.tenant_id = v_tenant AND h.seq = v_first;
    INSERT INTO audit.entry (tenant_id, seq, occurred_at, event_type, actor, object_type, object_id, loan_id,
        correlation_id, document, prev_hash, record_hash)
    SELECT d.parsed->>'tenantId', d.seq, (d.parsed->>'occurredAt')::timestamptz, d.parsed->>'eventType',
        coalesce(d.parsed->'actor'->>'userId', d.parsed->'actor'->>'service'), d.parsed->>'objectType',
        d.parsed->>'objectId', d.parsed->>'loanId', d.parsed->>'correlationId', d.document, d.prev, d.hash
    FROM unnest(p_documents, v_parsed, v_seqs, v_prevs, v_hashes) AS d(document, parsed, seq, prev, hash);
    RETURN cardinality(p_documents);
END
$$;

-- The tenants that have a chain, including one that lost its head or its entries: all of them in a transaction without a
-- tenant, otherwise only the tenant's own.
CREATE FUNCTION audit.chains() RETURNS TABLE (tenant_id text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    WITH RECURSIVE chain(tenant_id) AS (
        SELECT min(e.tenant_id) FROM audit.entry e
        UNION ALL
        SELECT (SELECT min(e.tenant_id) FROM audit.entry e WHERE e.tenant_id > c.tenant_id) FROM chain c WHERE c.tenant_id IS NOT NULL
    )
    SELECT a.tenant_id
    FROM (SELECT c.tenant_id FROM chain c UNION SELECT h.tenant_id FROM audit.head h) a
    WHERE a.tenant_id IS NOT NULL AND coalesce(current_setting('onceward.tenant_id', true), '') IN ('', a.tenant_id)
    ORDER BY a.tenant_id COLLATE "C"
$$;

-- The trail in a readable form.
CREATE VIEW audit.trail WITH (security_invoker = true) AS
SELECT tenant_id, seq, occurred_at, event_type, actor, object_type, object_id, loan_id, correlation_id,
    document::jsonb->'oldValue' AS old_value, document::jsonb->'newValue' AS new_value,
    document::jsonb->'payload' AS payload, document::jsonb->>'payloadHash' AS payload_hash
FROM audit.entry;
GRANT SELECT ON audit.trail TO onceward_app;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA audit FROM PUBLIC;
GRANT EXECUTE ON FUNCTION audit.append(text[]), audit.chains() TO onceward_app;
