-- Surveys, collectors, sessions, answers and quotas. Keys begin with the column that selects, the tenant comes second.

CREATE TABLE surveys.survey (
    tenant_id         text        NOT NULL,
    survey_id         uuid        NOT NULL,
    title             text        NOT NULL CHECK (title <> ''),
    status            text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'published', 'paused')),
    published_version int,
    -- Which set of buckets is in force; a set is never changed, so it may be kept in memory by its number.
    quota_revision    int         NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CHECK ((status = 'draft') = (published_version IS NULL)),
    PRIMARY KEY (survey_id, tenant_id)
);
SELECT onceward_meta.protect('surveys.survey');

-- One version may be a draft. One that was published is never changed: sessions keep theirs to their end.
CREATE TABLE surveys.definition (
    tenant_id    text        NOT NULL,
    survey_id    uuid        NOT NULL,
    version      int         NOT NULL CHECK (version > 0),
    definition   jsonb       NOT NULL,
    published_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (survey_id, tenant_id, version),
    FOREIGN KEY (survey_id, tenant_id) REFERENCES surveys.survey ON DELETE RESTRICT
);
SELECT onceward_meta.protect('surveys.definition');

CREATE TABLE surveys.collector (
    tenant_id    text        NOT NULL,
    collector_id uuid        NOT NULL,
    survey_id    uuid        NOT NULL,
    name         text        NOT NULL CHECK (name <> ''),
    kind         text        NOT NULL CHECK (kind IN ('link', 'invite')),
    status       text        NOT NULL DEFAULT 'paused' CHECK (status IN ('open', 'paused', 'closed')),
    opens_at     timestamptz,
    closes_at    timestamptz,
    -- How many respondents are let in, and how many were. They are counted only where there is a cap.
    cap          int         CHECK (cap >= 0),
    let_in_n     int         NOT NULL DEFAULT 0 CHECK (let_in_n >= 0),
    created_at   timestamptz NOT NULL DEFAULT now(),
    CHECK (let_in_n <= cap),
    CHECK (opens_at < closes_at),
    PRIMARY KEY (collector_id, tenant_id),
    FOREIGN KEY (survey_id, tenant_id) REFERENCES surveys.survey ON DELETE RESTRICT
);
SELECT onceward_meta.protect('surveys.collector');
CREATE INDEX collector_of_survey ON surveys.collector (survey_id, tenant_id);

CREATE TABLE surveys.invite (
    tenant_id    text        NOT NULL,
    invite_id    uuid        NOT NULL,
    collector_id uuid        NOT NULL,
    external_ref text,
    session_id   uuid,
    consumed_at  timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CHECK ((session_id IS NULL) = (consumed_at IS NULL)),
    PRIMARY KEY (invite_id, tenant_id),
    FOREIGN KEY (collector_id, tenant_id) REFERENCES surveys.collector ON DELETE RESTRICT
);
SELECT onceward_meta.protect('surveys.invite');
CREATE INDEX invite_of_collector ON surveys.invite (collector_id, tenant_id, created_at);

CREATE TABLE surveys.session (
    tenant_id    text        NOT NULL,
    session_id   uuid        NOT NULL,
    survey_id    uuid        NOT NULL,
    collector_id uuid        NOT NULL,
    version      int         NOT NULL,
    invite_id    uuid,
    status       text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed', 'terminated')),
    reason       text        CHECK (reason IN ('screened_out', 'quota_full', 'abandoned', 'expired', 'by_respondent')),
    -- Buckets in which it holds a place, and those whose place it has filled. In the row that every step locks first.
    held         uuid[]      NOT NULL DEFAULT '{}',
    filled       uuid[]      NOT NULL DEFAULT '{}',
    -- SHA-256 of collector, invite and the Idempotency-Key of the start.
    start_digest bytea       NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    -- When the clock looks at it: its places go back, or it ends.
    due_at       timestamptz NOT NULL,
    CHECK ((status = 'active') = (ended_at IS NULL)),
    CHECK ((status = 'terminated') = (reason IS NOT NULL)),
    CHECK (status = 'active' OR held = '{}'),
    CHECK (status = 'completed' OR filled = '{}'),
    PRIMARY KEY (session_id, tenant_id),
    UNIQUE (start_digest, tenant_id),
    FOREIGN KEY (survey_id, tenant_id, version) REFERENCES surveys.definition ON DELETE RESTRICT,
    FOREIGN KEY (collector_id, tenant_id) REFERENCES surveys.collector ON DELETE RESTRICT
) WITH (fillfactor = 70);
SELECT onceward_meta.protect('surveys.session');
CREATE INDEX session_due ON surveys.session (tenant_id, due_at) WHERE status = 'active';

-- The last submit of each page, with what was answered to it.
CREATE TABLE surveys.answer (
    tenant_id    text        NOT NULL,
    session_id   uuid        NOT NULL,
    page_id      text        NOT NULL,
    attempt      int         NOT NULL CHECK (attempt > 0),
    answers      jsonb       NOT NULL,
    body_digest  bytea       NOT NULL,
    outcome      jsonb       NOT NULL,
    submitted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, page_id, tenant_id),
    FOREIGN KEY (session_id, tenant_id) REFERENCES surveys.session ON DELETE RESTRICT
);
SELECT onceward_meta.protect('surveys.answer');

-- A bucket's places. `limit_n` is target_n + max_overfill, or what is taken already where the target was lowered below it;
-- from there it follows downwards as places come back, and nothing that takes a place can raise it.
CREATE TABLE surveys.quota_bucket (
    tenant_id      text        NOT NULL,
    bucket_id      uuid        NOT NULL,
    survey_id      uuid        NOT NULL,
    name           text        NOT NULL CHECK (name <> ''),
    condition      jsonb       NOT NULL,
    target_n       int         NOT NULL CHECK (target_n >= 0),
    max_overfill   int         NOT NULL DEFAULT 0 CHECK (max_overfill >= 0),
    reserved_n     int         NOT NULL DEFAULT 0 CHECK (reserved_n >= 0),
    filled_n       int         NOT NULL DEFAULT 0 CHECK (filled_n >= 0),
    limit_n        int         NOT NULL,
    closed_at      timestamptz,
    since_revision int         NOT NULL,
    until_revision int,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT quota_never_overfills CHECK (reserved_n + filled_n <= limit_n),
    CHECK ((closed_at IS NOT NULL) = (filled_n >= target_n)),
    PRIMARY KEY (bucket_id, tenant_id),
    FOREIGN KEY (survey_id, tenant_id) REFERENCES surveys.survey ON DELETE RESTRICT
) WITH (fillfactor = 50);
SELECT onceward_meta.protect('surveys.quota_bucket');
CREATE INDEX bucket_of_survey ON surveys.quota_bucket (survey_id, tenant_id);

CREATE FUNCTION surveys.set_limit() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' OR (NEW.target_n, NEW.max_overfill) IS DISTINCT FROM (OLD.target_n, OLD.max_overfill) THEN
        NEW.limit_n := greatest(NEW.target_n + NEW.max_overfill, NEW.reserved_n + NEW.filled_n);
    ELSE
        NEW.limit_n := greatest(NEW.target_n + NEW.max_overfill, least(OLD.limit_n, NEW.reserved_n + NEW.filled_n));
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER limit_of_new BEFORE INSERT ON surveys.quota_bucket FOR EACH ROW EXECUTE FUNCTION surveys.set_limit();
CREATE TRIGGER limit_of_changed BEFORE UPDATE ON surveys.quota_bucket FOR EACH ROW
    WHEN (NEW.target_n <> OLD.target_n OR NEW.max_overfill <> OLD.max_overfill OR NEW.limit_n <> OLD.limit_n
          OR OLD.limit_n > OLD.target_n + OLD.max_overfill)
    EXECUTE FUNCTION surveys.set_limit();
