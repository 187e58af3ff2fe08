-- Surveys, collectors, sessions, answers and quotas. Keys begin with the most selective column; the tenant comes second.

CREATE TABLE surveys.survey (
    tenant_id         text        NOT NULL,
    survey_id         uuid        NOT NULL,
    title             text        NOT NULL CHECK (title <> ''),
    status            text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'published', 'paused')),
    published_version int,
    -- The number of the set of buckets in force. A set never changes, so it may be cached by this number.
    quota_revision    int         NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CHECK ((status = 'draft') = (published_version IS NULL)),
    PRIMARY KEY (survey_id, tenant_id)
);
SELECT onceward_meta.protect('surveys.survey');

-- At most one version is a draft. A published version never changes: a session uses the same version until it ends.
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
    -- The maximum number of respondents, and how many were admitted. They are counted only if there is a cap.
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
CREATE INDEX invite_of_ref ON surveys.invite (external_ref, tenant_id) WHERE external_ref IS NOT NULL;
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
    -- The buckets in which the session holds a place, and those in which it has filled one. They are columns of this row,
    -- because every step locks it first.
    held         uuid[]      NOT NULL DEFAULT '{}',
    filled       uuid[]      NOT NULL DEFAULT '{}',
    -- SHA-256 of the origin of the start (API or page), the collector, the invite and the start key.
    start_digest bytea       NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    -- When the answers were permanently removed.
    erased_at    timestamptz,
    -- When `surveys.expire` handles the session: it releases its places, or it ends.
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
-- Answers are read in the order in which sessions were started, which is the order of their ids.
CREATE INDEX session_of_survey ON surveys.session (survey_id, tenant_id, session_id);
CREATE INDEX session_due ON surveys.session (tenant_id, due_at) WHERE status = 'active';

-- The last submit of each page, with the response to it.
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

-- A bucket's places. `limit_n` is target_n + max_overfill or, if the target was lowered below it, the number of places taken.
-- From then on the limit decreases as places are released; reserving or filling a place never raises it.
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
