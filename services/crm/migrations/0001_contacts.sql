-- Keys of a tenant, each encrypted with the deployment's key. 'addresses' is the key of the address hashes.
CREATE TABLE crm.tenant_key (
    tenant_id  text        NOT NULL,
    purpose    text        NOT NULL CHECK (purpose IN ('addresses')),
    root_id    text        NOT NULL,
    sealed     bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (purpose, tenant_id)
);
SELECT onceward_meta.protect('crm.tenant_key', 'SELECT, INSERT, UPDATE');

-- A person or a company. An erased contact keeps its row, without anything personal.
CREATE TABLE crm.contact (
    tenant_id    text        NOT NULL,
    contact_id   uuid        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('person', 'company')),
    display_name text        NOT NULL CHECK (length(display_name) <= 200),
    given_name   text        CHECK (length(given_name) <= 100),
    family_name  text        CHECK (length(family_name) <= 100),
    phone        text        CHECK (length(phone) <= 50),
    locale       text        CHECK (length(locale) <= 35),
    jurisdiction text        CHECK (jurisdiction ~ '^[A-Z]{2}(-[A-Z0-9]{1,3})?$'),
    company_id   uuid,
    owner_id     text        CHECK (length(owner_id) <= 255),
    tags         text[]      NOT NULL DEFAULT '{}',
    labels       jsonb       NOT NULL DEFAULT '{}',
    custom       jsonb       NOT NULL DEFAULT '{}',
    version      int         NOT NULL DEFAULT 1 CHECK (version > 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    erased_at    timestamptz,
    PRIMARY KEY (contact_id, tenant_id),
    FOREIGN KEY (company_id, tenant_id) REFERENCES crm.contact (contact_id, tenant_id)
);
CREATE INDEX contact_listed ON crm.contact (tenant_id, contact_id DESC) WHERE erased_at IS NULL;
-- Bytewise, so that a prefix is a range.
CREATE INDEX contact_by_name ON crm.contact (tenant_id, (lower(display_name) COLLATE "C"), contact_id);
CREATE INDEX contact_by_owner ON crm.contact (tenant_id, owner_id, contact_id) WHERE owner_id IS NOT NULL;
CREATE INDEX contact_by_company ON crm.contact (company_id, tenant_id) WHERE company_id IS NOT NULL;
CREATE INDEX contact_by_tag ON crm.contact USING gin (tags);
SELECT onceward_meta.protect('crm.contact', 'SELECT, INSERT, UPDATE');

-- An email address of a contact. Suppression is by address hash, in crm.suppression: two contacts with one address share
-- it, and a changed address does not inherit it.
CREATE TABLE crm.contact_address (
    tenant_id    text        NOT NULL,
    address_id   uuid        NOT NULL,
    contact_id   uuid        NOT NULL,
    address      text        NOT NULL CHECK (length(address) <= 320),
    address_hash bytea       NOT NULL CHECK (octet_length(address_hash) = 32),
    label        text        CHECK (length(label) <= 50),
    is_primary   boolean     NOT NULL DEFAULT false,
    verified_at  timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (address_id, tenant_id),
    UNIQUE (contact_id, address_hash, tenant_id),
    FOREIGN KEY (contact_id, tenant_id) REFERENCES crm.contact (contact_id, tenant_id)
);
CREATE UNIQUE INDEX contact_address_primary ON crm.contact_address (contact_id, tenant_id) WHERE is_primary;
CREATE INDEX contact_address_by_hash ON crm.contact_address (address_hash, tenant_id);
SELECT onceward_meta.protect('crm.contact_address');

-- What a contact is linked to: a loan, or any object of another service.
CREATE TABLE crm.contact_link (
    tenant_id   text        NOT NULL,
    contact_id  uuid        NOT NULL,
    object_type text        NOT NULL CHECK (length(object_type) BETWEEN 1 AND 50),
    object_id   text        NOT NULL CHECK (length(object_id) BETWEEN 1 AND 100),
    relation    text        NOT NULL DEFAULT 'related' CHECK (length(relation) BETWEEN 1 AND 50),
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (contact_id, object_type, object_id, tenant_id),
    FOREIGN KEY (contact_id, tenant_id) REFERENCES crm.contact (contact_id, tenant_id)
);
CREATE INDEX contact_link_by_object ON crm.contact_link (object_type, object_id, tenant_id);
SELECT onceward_meta.protect('crm.contact_link', 'SELECT, INSERT, DELETE');

-- Who works on an object: users may send mail about the loans that they own or are assigned to.
CREATE TABLE crm.assignment (
    tenant_id   text        NOT NULL,
    object_type text        NOT NULL CHECK (length(object_type) BETWEEN 1 AND 50),
    object_id   text        NOT NULL CHECK (length(object_id) BETWEEN 1 AND 100),
    user_id     text        NOT NULL CHECK (length(user_id) BETWEEN 1 AND 255),
    duty        text        NOT NULL CHECK (duty IN ('owner', 'assignee')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (object_type, object_id, user_id, tenant_id)
);
CREATE UNIQUE INDEX assignment_owner ON crm.assignment (object_type, object_id, tenant_id) WHERE duty = 'owner';
CREATE INDEX assignment_by_user ON crm.assignment (tenant_id, user_id, object_type, object_id);
SELECT onceward_meta.protect('crm.assignment', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE crm.note (
    tenant_id  text        NOT NULL,
    note_id    uuid        NOT NULL,
    contact_id uuid        NOT NULL,
    body       text        NOT NULL CHECK (length(body) BETWEEN 1 AND 10000),
    author_id  text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (note_id, tenant_id),
    FOREIGN KEY (contact_id, tenant_id) REFERENCES crm.contact (contact_id, tenant_id)
);
CREATE INDEX note_by_contact ON crm.note (contact_id, tenant_id, note_id DESC);
SELECT onceward_meta.protect('crm.note', 'SELECT, INSERT, DELETE');

-- A contact must not be written to, for one class of mail or for all ('*'). Lifting it keeps the row.
CREATE TABLE crm.do_not_contact (
    tenant_id  text        NOT NULL,
    dnc_id     uuid        NOT NULL,
    contact_id uuid        NOT NULL,
    mail_class text        NOT NULL
               CHECK (mail_class IN ('*', 'legal', 'security', 'transactional', 'relationship', 'marketing')),
    reason     text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    set_by     text,
    set_at     timestamptz NOT NULL DEFAULT now(),
    lifted_by  text,
    lifted_at  timestamptz,
    PRIMARY KEY (dnc_id, tenant_id),
    FOREIGN KEY (contact_id, tenant_id) REFERENCES crm.contact (contact_id, tenant_id)
);
CREATE UNIQUE INDEX do_not_contact_in_force ON crm.do_not_contact (contact_id, mail_class, tenant_id)
    WHERE lifted_at IS NULL;
CREATE INDEX do_not_contact_history ON crm.do_not_contact (contact_id, tenant_id, dnc_id DESC);
SELECT onceward_meta.protect('crm.do_not_contact', 'SELECT, INSERT, UPDATE');

-- Consent, given or withdrawn. The latest row of a contact and class counts.
CREATE TABLE crm.consent (
    tenant_id    text        NOT NULL,
    consent_id   uuid        NOT NULL,
    contact_id   uuid        NOT NULL,
    mail_class   text        NOT NULL
                 CHECK (mail_class IN ('legal', 'security', 'transactional', 'relationship', 'marketing')),
    is_given     boolean     NOT NULL,
    basis        text        NOT NULL CHECK (basis IN ('consent', 'contract', 'legal_obligation', 'legitimate_interest')),
    source       text        NOT NULL CHECK (length(source) BETWEEN 1 AND 100),
    text_version text        NOT NULL CHECK (length(text_version) BETWEEN 1 AND 100),
    actor        text,
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consent_id, tenant_id),
    FOREIGN KEY (contact_id, tenant_id) REFERENCES crm.contact (contact_id, tenant_id)
);
CREATE INDEX consent_latest ON crm.consent (contact_id, mail_class, tenant_id, recorded_at DESC, consent_id DESC);
CREATE INDEX consent_history ON crm.consent (contact_id, tenant_id, consent_id DESC);
SELECT onceward_meta.protect('crm.consent', 'SELECT, INSERT');

-- What a jurisdiction demands for a class of mail. The longest match wins: 'US-CA' before 'US'.
CREATE TABLE crm.jurisdiction_rule (
    tenant_id    text        NOT NULL,
    jurisdiction text        NOT NULL CHECK (jurisdiction ~ '^[A-Z]{2}(-[A-Z0-9]{1,3})?$'),
    mail_class   text        NOT NULL
                 CHECK (mail_class IN ('legal', 'security', 'transactional', 'relationship', 'marketing')),
    demand       text        NOT NULL CHECK (demand IN ('allowed', 'consent', 'forbidden')),
    reason       text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (jurisdiction, mail_class, tenant_id)
);
CREATE INDEX jurisdiction_rule_listed ON crm.jurisdiction_rule (tenant_id, jurisdiction, mail_class);
SELECT onceward_meta.protect('crm.jurisdiction_rule');

-- Addresses that must not be written to, by hash. Complaints never expire; soft bounces do.
CREATE TABLE crm.suppression (
    tenant_id    text        NOT NULL,
    address_hash bytea       NOT NULL CHECK (octet_length(address_hash) = 32),
    mail_class   text        NOT NULL DEFAULT '*'
                 CHECK (mail_class IN ('*', 'legal', 'security', 'transactional', 'relationship', 'marketing')),
    reason       text        NOT NULL
                 CHECK (reason IN ('hard_bounce', 'soft_bounce', 'complaint', 'unsubscribed', 'manual')),
    origin       text        NOT NULL CHECK (length(origin) BETWEEN 1 AND 100),
    evidence     jsonb       NOT NULL DEFAULT '{}',
    since        timestamptz NOT NULL DEFAULT now(),
    until        timestamptz,
    PRIMARY KEY (address_hash, mail_class, reason, tenant_id)
);
CREATE INDEX suppression_listed ON crm.suppression (tenant_id, since DESC, address_hash);
CREATE INDEX suppression_expiring ON crm.suppression (until) WHERE until IS NOT NULL;
SELECT onceward_meta.protect('crm.suppression');

-- What happened to a contact, latest first: a projection of the tenant's audit chain, written in the same commit and
-- rebuilt from the chain alone.
CREATE TABLE crm.timeline (
    tenant_id   text        NOT NULL,
    contact_id  uuid        NOT NULL,
    entry_id    uuid        NOT NULL,
    occurred_at timestamptz NOT NULL,
    event_type  text        NOT NULL,
    email_id    uuid,
    actor       text,
    detail      jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (contact_id, tenant_id, occurred_at, entry_id)
);
SELECT onceward_meta.protect('crm.timeline', 'SELECT, INSERT, DELETE');

-- What lending published about a loan: the source of every figure in a mail. Crm computes no balances.
CREATE TABLE crm.loan_snapshot (
    tenant_id   text        NOT NULL,
    loan_id     text        NOT NULL,
    loan        jsonb       NOT NULL DEFAULT '{}',
    balances    jsonb       NOT NULL DEFAULT '{}',
    last_payment jsonb,
    event_id    uuid        NOT NULL,
    occurred_at timestamptz NOT NULL,
    PRIMARY KEY (loan_id, tenant_id)
);
SELECT onceward_meta.protect('crm.loan_snapshot', 'SELECT, INSERT, UPDATE');
