-- One row per finished command that carried an Idempotency-Key. It is written in the transaction of the command's
-- effects, so a row exists exactly when the effects do.
CREATE TABLE onceward_web.idempotency_key (
    tenant_id           text        NOT NULL,
    -- SHA-256 over tenant, caller, method, path and key: fixed size, and the key itself is not kept.
    scope_digest        bytea       NOT NULL CHECK (octet_length(scope_digest) = 32),
    request_fingerprint bytea       NOT NULL CHECK (octet_length(request_fingerprint) = 32),
    status              smallint    NOT NULL,
    content_type        text,
    location            text,
    body                bytea       NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT now(),
    expires_at          timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, scope_digest)
);

CREATE INDEX idempotency_key_expires_at ON onceward_web.idempotency_key (expires_at);

SELECT onceward_meta.protect('onceward_web.idempotency_key');

-- Takes the key's lock for the rest of the transaction and then looks for a finished command.
-- A function and not one query: each statement in it has its own snapshot, so the look comes after the lock. With one
-- snapshot for both, a command that commits in between would be missed and its effects done twice.
CREATE FUNCTION onceward_web.claim_key(p_lock bigint, p_scope_digest bytea)
    RETURNS TABLE (
        state text, request_fingerprint bytea, status smallint, content_type text, location text, body bytea)
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(p_lock) THEN
        RETURN QUERY SELECT 'running'::text, NULL::bytea, NULL::smallint, NULL::text, NULL::text, NULL::bytea;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT 'done'::text, k.request_fingerprint, k.status, k.content_type, k.location, k.body
        FROM onceward_web.idempotency_key k
        WHERE k.tenant_id = onceward_meta.current_tenant()
          AND k.scope_digest = p_scope_digest
          AND k.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'free'::text, NULL::bytea, NULL::smallint, NULL::text, NULL::text, NULL::bytea;
    END IF;
END
$$;

-- The engine's cleaning: crosses tenants, and can do nothing but forget what has expired.
CREATE FUNCTION onceward_web.forget_expired(p_limit int) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog
    AS $$
DECLARE
    v_forgotten bigint;
BEGIN
    DELETE FROM onceward_web.idempotency_key
    WHERE ctid = ANY (ARRAY(
        SELECT k.ctid FROM onceward_web.idempotency_key k
        WHERE k.expires_at <= clock_timestamp()
        ORDER BY k.expires_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_forgotten = ROW_COUNT;
    RETURN v_forgotten;
END
$$;

REVOKE ALL ON FUNCTION onceward_web.forget_expired(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION onceward_web.forget_expired(int) TO onceward_app;
