-- One row per address about which something came back. Its lock makes reports about one address follow each other.
-- Bounces that happened before bounces_cleared_at do not count any more: the address was verified then.
CREATE TABLE crm.address_feedback (
    tenant_id          text        NOT NULL,
    address_hash       bytea       NOT NULL CHECK (octet_length(address_hash) = 32),
    bounces_cleared_at timestamptz,
    updated_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (address_hash, tenant_id)
);
SELECT onceward_meta.protect('crm.address_feedback', 'SELECT, INSERT, UPDATE');

-- Classes of mail that a tenant does not send at the moment, because too many recipients complained.
CREATE TABLE crm.class_stop (
    tenant_id  text        NOT NULL,
    mail_class text        NOT NULL CHECK (mail_class IN ('transactional', 'relationship', 'marketing')),
    reason     text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    since      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (mail_class, tenant_id)
);
SELECT onceward_meta.protect('crm.class_stop', 'SELECT, INSERT, DELETE');

-- When a stop of a class was lifted: complaints before that do not stop it again.
CREATE TABLE crm.class_resumption (
    tenant_id  text        NOT NULL,
    mail_class text        NOT NULL CHECK (mail_class IN ('transactional', 'relationship', 'marketing')),
    resumed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (mail_class, tenant_id)
);
SELECT onceward_meta.protect('crm.class_resumption', 'SELECT, INSERT, UPDATE');

-- For the rate of complaints: the mails of a class, latest first.
CREATE INDEX email_by_class ON crm.email (mail_class, tenant_id, requested_at DESC);

-- The tenant of a mail. Reports and links name a mail without its tenant; callers verify their signature first.
CREATE FUNCTION crm.tenant_of_email(p_email_id uuid) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT email.tenant_id FROM crm.email email WHERE email.email_id = p_email_id LIMIT 1
$$;

-- The recipient that a provider knows by this id. No row if two have it, because neither may be blamed then.
CREATE FUNCTION crm.recipient_of_provider_id(p_provider text, p_provider_id text)
    RETURNS TABLE (tenant_id text, email_id uuid, "position" smallint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT min(found.tenant_id), min(found.email_id::text)::uuid, min(found."position")
    FROM (
        SELECT recipient.tenant_id, recipient.email_id, recipient."position"
        FROM crm.email_recipient recipient
        WHERE recipient.provider_id = p_provider_id AND recipient.provider = p_provider
        LIMIT 2) found
    HAVING count(*) = 1
$$;

REVOKE ALL ON FUNCTION crm.tenant_of_email(uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION crm.recipient_of_provider_id(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION crm.tenant_of_email(uuid) TO onceward_app;
GRANT EXECUTE ON FUNCTION crm.recipient_of_provider_id(text, text) TO onceward_app;
