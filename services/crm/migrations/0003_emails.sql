-- Objects that were stored before the commit that refers to them. That commit deletes the row; what stays is swept.
CREATE TABLE crm.pending_object (
    tenant_id  text        NOT NULL,
    object_key text        NOT NULL,
    stored_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (object_key, tenant_id)
);
CREATE INDEX pending_object_by_age ON crm.pending_object (stored_at);
SELECT onceward_meta.protect('crm.pending_object', 'SELECT, INSERT, DELETE');

-- One row per requested mail. Personal content is in the sealed request, under a data key that can be forgotten.
CREATE TABLE crm.email (
    tenant_id        text        NOT NULL,
    email_id         uuid        NOT NULL,
    event_id         uuid        NOT NULL,
    correlation_id   text        NOT NULL,
    loan_id          text,
    contact_id       uuid,
    user_id          text,
    template_id      text        NOT NULL,
    template_version int         NOT NULL,
    mail_class       text        NOT NULL,
    delivery         text        NOT NULL CHECK (delivery IN ('at_most_once', 'at_least_once')),
    variables_hash   text        NOT NULL CHECK (variables_hash ~ '^[0-9a-f]{64}$'),
    status           text        NOT NULL DEFAULT 'queued'
                     CHECK (status IN (
                         'queued', 'sending', 'sent', 'partly_sent', 'failed', 'unknown', 'suppressed', 'expired')),
    attempts         int         NOT NULL DEFAULT 0,
    last_error       text        CHECK (length(last_error) <= 500),
    not_after        timestamptz,
    artifact_id      uuid,
    requested_at     timestamptz NOT NULL DEFAULT now(),
    finished_at      timestamptz,
    PRIMARY KEY (email_id, tenant_id)
);
CREATE INDEX email_by_loan ON crm.email (loan_id, tenant_id, email_id DESC) WHERE loan_id IS NOT NULL;
CREATE INDEX email_by_contact ON crm.email (contact_id, tenant_id, email_id DESC) WHERE contact_id IS NOT NULL;
CREATE INDEX email_by_correlation ON crm.email (correlation_id, tenant_id);
CREATE INDEX email_by_event ON crm.email (event_id, tenant_id);
CREATE INDEX email_unfinished ON crm.email (requested_at) WHERE finished_at IS NULL;
SELECT onceward_meta.protect('crm.email', 'SELECT, INSERT, UPDATE');

-- One row per recipient, committed before a provider is called. 'handed_over' that nobody settles becomes 'unknown'.
CREATE TABLE crm.email_recipient (
    tenant_id      text        NOT NULL,
    email_id       uuid        NOT NULL,
    position       smallint    NOT NULL CHECK (position BETWEEN 0 AND 99),
    field          text        NOT NULL CHECK (field IN ('to', 'cc', 'bcc')),
    address_hash   bytea       NOT NULL CHECK (octet_length(address_hash) = 32),
    state          text        NOT NULL DEFAULT 'queued'
                   CHECK (state IN (
                       'queued', 'handed_over', 'accepted', 'deferred', 'refused', 'unknown', 'suppressed', 'expired',
                       'failed')),
    handover_id    uuid,
    handed_over_at timestamptz,
    provider       text,
    provider_id    text        CHECK (length(provider_id) <= 255),
    reply_code     int,
    reason         text        CHECK (length(reason) <= 500),
    feedback       text        CHECK (feedback IN ('delivered', 'deferred', 'bounced', 'complained')),
    settled_at     timestamptz,
    PRIMARY KEY (email_id, position, tenant_id),
    UNIQUE (email_id, address_hash, tenant_id),
    FOREIGN KEY (email_id, tenant_id) REFERENCES crm.email (email_id, tenant_id)
);
CREATE INDEX email_recipient_by_address ON crm.email_recipient (address_hash, tenant_id, email_id DESC);
CREATE INDEX email_recipient_by_provider_id ON crm.email_recipient (provider_id, tenant_id)
    WHERE provider_id IS NOT NULL;
SELECT onceward_meta.protect('crm.email_recipient', 'SELECT, INSERT, UPDATE');

-- Each call of a provider for a recipient, with the conversation step by step.
CREATE TABLE crm.send_attempt (
    tenant_id   text        NOT NULL,
    email_id    uuid        NOT NULL,
    position    smallint    NOT NULL,
    handover_id uuid        NOT NULL,
    provider    text        NOT NULL,
    outcome     text        NOT NULL,
    steps       jsonb       NOT NULL DEFAULT '[]',
    started_at  timestamptz NOT NULL,
    duration_ms int         NOT NULL,
    PRIMARY KEY (email_id, position, handover_id, tenant_id)
);
SELECT onceward_meta.protect('crm.send_attempt', 'SELECT, INSERT');

-- The key of a contact's artifacts (or, without a contact, of one mail's), encrypted with the deployment's key. Forgetting
-- it makes them unreadable; their hashes stay.
CREATE TABLE crm.data_key (
    tenant_id    text        NOT NULL,
    key_id       uuid        NOT NULL,
    root_id      text        NOT NULL,
    sealed       bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    forgotten_at timestamptz,
    PRIMARY KEY (key_id, tenant_id),
    CHECK ((sealed IS NULL) = (forgotten_at IS NOT NULL))
);
SELECT onceward_meta.protect('crm.data_key', 'SELECT, INSERT, UPDATE');

-- An immutable, content-addressed set of objects of one mail. Hashes are of the plain content.
CREATE TABLE crm.artifact (
    tenant_id       text        NOT NULL,
    artifact_id     uuid        NOT NULL,
    email_id        uuid        NOT NULL,
    event_id        uuid        NOT NULL,
    correlation_id  text        NOT NULL,
    loan_id         text,
    key_id          uuid        NOT NULL,
    message_id      text        NOT NULL,
    message_sha256  text        NOT NULL CHECK (message_sha256 ~ '^[0-9a-f]{64}$'),
    message_bytes   int         NOT NULL CHECK (message_bytes > 0),
    manifest_sha256 text        NOT NULL CHECK (manifest_sha256 ~ '^[0-9a-f]{64}$'),
    objects         jsonb       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (artifact_id, tenant_id),
    UNIQUE (email_id, tenant_id)
);
CREATE INDEX artifact_by_event ON crm.artifact (event_id, tenant_id);
CREATE INDEX artifact_by_loan ON crm.artifact (loan_id, tenant_id, artifact_id DESC) WHERE loan_id IS NOT NULL;
CREATE INDEX artifact_by_correlation ON crm.artifact (correlation_id, tenant_id);
CREATE INDEX artifact_by_message ON crm.artifact (message_id, tenant_id);
SELECT onceward_meta.protect('crm.artifact', 'SELECT, INSERT');

-- What came back about a recipient: deliveries, bounces, complaints. A report is recorded once. The address hash is
-- repeated here, because what several mails report about one address decides whether it is suppressed.
CREATE TABLE crm.feedback (
    tenant_id    text        NOT NULL,
    feedback_id  uuid        NOT NULL,
    source       text        NOT NULL CHECK (length(source) BETWEEN 1 AND 50),
    source_id    text        NOT NULL CHECK (length(source_id) BETWEEN 1 AND 255),
    email_id     uuid        NOT NULL,
    position     smallint    NOT NULL,
    address_hash bytea       NOT NULL CHECK (octet_length(address_hash) = 32),
    kind         text        NOT NULL CHECK (kind IN ('delivered', 'deferred', 'bounced', 'complained')),
    is_hard      boolean     NOT NULL DEFAULT false,
    status_code  text        CHECK (length(status_code) <= 20),
    class        text        CHECK (length(class) <= 50),
    joined_by    text        NOT NULL CHECK (joined_by IN ('token', 'provider_id', 'message_id')),
    occurred_at  timestamptz NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (feedback_id, tenant_id),
    UNIQUE (source, source_id, email_id, position, tenant_id)
);
CREATE INDEX feedback_by_email ON crm.feedback (email_id, tenant_id, occurred_at);
CREATE INDEX feedback_by_address ON crm.feedback (address_hash, tenant_id, occurred_at DESC);
CREATE INDEX feedback_complaints ON crm.feedback (tenant_id, received_at) WHERE kind = 'complained';
SELECT onceward_meta.protect('crm.feedback', 'SELECT, INSERT');

-- Who a tenant's mail comes from. One sender is the default; others are chosen by their domain.
CREATE TABLE crm.sender (
    tenant_id    text        NOT NULL,
    domain       text        NOT NULL CHECK (length(domain) BETWEEN 1 AND 253),
    from_address text        NOT NULL CHECK (length(from_address) <= 320),
    from_name    text        CHECK (length(from_name) <= 200),
    reply_to     text        CHECK (length(reply_to) <= 320),
    is_default   boolean     NOT NULL DEFAULT false,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (domain, tenant_id)
);
CREATE UNIQUE INDEX sender_default ON crm.sender (tenant_id) WHERE is_default;
SELECT onceward_meta.protect('crm.sender');

-- The DKIM keys of a sender's domain, encrypted. A new selector is published in DNS before it becomes active.
CREATE TABLE crm.dkim_key (
    tenant_id  text        NOT NULL,
    domain     text        NOT NULL,
    selector   text        NOT NULL CHECK (selector ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    algorithm  text        NOT NULL CHECK (algorithm IN ('rsa-sha256', 'ed25519-sha256')),
    root_id    text        NOT NULL,
    sealed     bytea       NOT NULL,
    record     text        NOT NULL,
    is_active  boolean     NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (domain, selector, tenant_id),
    FOREIGN KEY (domain, tenant_id) REFERENCES crm.sender (domain, tenant_id)
);
-- Each algorithm signs with one selector. Activating another one deactivates it.
CREATE UNIQUE INDEX dkim_key_active ON crm.dkim_key (domain, algorithm, tenant_id) WHERE is_active;
SELECT onceward_meta.protect('crm.dkim_key');
