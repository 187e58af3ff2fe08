CREATE TABLE crm.template (
    tenant_id   text        NOT NULL,
    template_id text        NOT NULL CHECK (template_id ~ '^[a-z0-9][a-z0-9-]{0,99}$'),
    mail_class  text        NOT NULL
                CHECK (mail_class IN ('legal', 'security', 'transactional', 'relationship', 'marketing')),
    version     int         NOT NULL CHECK (version > 0),
    retired_at  timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (template_id, tenant_id)
);
CREATE INDEX template_listed ON crm.template (tenant_id, template_id);
SELECT onceward_meta.protect('crm.template', 'SELECT, INSERT, UPDATE');

-- Versions never change. The class belongs to the version, so that a mail that was requested keeps the class that it had.
CREATE TABLE crm.template_version (
    tenant_id   text        NOT NULL,
    template_id text        NOT NULL,
    version     int         NOT NULL CHECK (version > 0),
    mail_class  text        NOT NULL
                CHECK (mail_class IN ('legal', 'security', 'transactional', 'relationship', 'marketing')),
    delivery    text        NOT NULL CHECK (delivery IN ('at_most_once', 'at_least_once')),
    source      jsonb       NOT NULL,
    sha256      text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    created_by  text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (template_id, version, tenant_id)
);
SELECT onceward_meta.protect('crm.template_version', 'SELECT, INSERT');
