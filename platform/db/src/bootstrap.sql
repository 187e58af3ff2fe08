-- What must exist before any migration can be recorded. Runs at every start, so every statement is repeatable.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'onceward_app') THEN
        CREATE ROLE onceward_app NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    -- Another database of the same server was being set up at the same moment; roles are shared.
    NULL;
END
$$;

DO $$
BEGIN
    IF NOT pg_has_role(current_user, 'onceward_app', 'MEMBER') THEN
        EXECUTE format('GRANT onceward_app TO %I', current_user);
    END IF;
END
$$;

-- The classes of advisory locks that migrations use are listed in platform/db/src/lock_class.rs, and nowhere else.
CREATE SCHEMA IF NOT EXISTS onceward_meta;

CREATE TABLE IF NOT EXISTS onceward_meta.migration (
    schema_name text        NOT NULL,
    name        text        NOT NULL,
    checksum    text        NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (schema_name, name)
);

-- The tenant of the running transaction; empty when there is none, which matches no row.
CREATE OR REPLACE FUNCTION onceward_meta.current_tenant() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT current_setting('onceward.tenant_id', true) $$;

-- Binds a tenant's table: rows of the transaction's tenant only, for reading and for writing.
CREATE OR REPLACE FUNCTION onceward_meta.protect(p_table regclass, p_grants text DEFAULT 'SELECT, INSERT, UPDATE, DELETE') RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', p_table);
    EXECUTE format('DROP POLICY IF EXISTS tenant_isolation ON %s', p_table);
    EXECUTE format(
        'CREATE POLICY tenant_isolation ON %s USING (tenant_id = current_setting(''onceward.tenant_id'', true)) '
        'WITH CHECK (tenant_id = current_setting(''onceward.tenant_id'', true))', p_table);
    IF p_grants <> '' THEN
        EXECUTE format('GRANT %s ON %s TO onceward_app', p_grants, p_table);
    END IF;
END
$$;

GRANT USAGE ON SCHEMA onceward_meta TO onceward_app;
