-- Renames the table and creates a writable view with the old name and columns. A rename moves no rows and keeps foreign
-- keys, sequences and triggers.
DO $step$
DECLARE
    v_columns text;
    v_owner   text;
    v_grant   record;
BEGIN
    IF to_regclass('"@schema".borrower_entities') IS NOT NULL THEN
        RAISE EXCEPTION 'both "@schema".borrower_entities and "@schema".borrowers are tables: rename or drop the one that does not hold the data';
    END IF;
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO v_columns
    FROM pg_attribute WHERE attrelid = '"@schema".borrowers'::regclass AND attnum > 0 AND NOT attisdropped;
    SELECT quote_ident(relowner::regrole::text) INTO v_owner FROM pg_class WHERE oid = '"@schema".borrowers'::regclass;
    ALTER TABLE "@schema".borrowers RENAME TO borrower_entities;
    EXECUTE format('CREATE VIEW "@schema".borrowers AS SELECT %s FROM "@schema".borrower_entities', v_columns);
    -- Grants on the table apply to the view as well.
    FOR v_grant IN
        SELECT a.grantee, a.privilege_type, a.is_grantable
        FROM pg_class AS c, LATERAL aclexplode(c.relacl) AS a
        WHERE c.oid = '"@schema".borrower_entities'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON "@schema".borrowers TO %s%s', v_grant.privilege_type,
            CASE v_grant.grantee WHEN 0 THEN 'PUBLIC' ELSE v_grant.grantee::regrole::text END,
            CASE WHEN v_grant.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    EXECUTE format('ALTER VIEW "@schema".borrowers OWNER TO %s', v_owner);
END
$step$;
