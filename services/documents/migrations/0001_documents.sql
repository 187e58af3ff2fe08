CREATE TABLE documents.document (
    tenant_id   text        NOT NULL,
    document_id uuid        NOT NULL,
    file_name   text        CHECK (length(file_name) <= 255),
    media_type  text        NOT NULL CHECK (media_type IN ('application/pdf', 'text/plain')),
    size_bytes  bigint      NOT NULL CHECK (size_bytes > 0),
    sha256      text        NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    content     bytea       NOT NULL,
    uploaded_by text,
    uploaded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (document_id, tenant_id),
    CHECK (octet_length(content) = size_bytes)
);
-- PDFs are already compressed: compressing them again costs time and saves nothing.
ALTER TABLE documents.document ALTER COLUMN content SET STORAGE EXTERNAL;
SELECT onceward_meta.protect('documents.document', 'SELECT, INSERT, UPDATE');

-- One row per requested analysis of a document; the highest number is the current one.
CREATE TABLE documents.analysis (
    tenant_id      text        NOT NULL,
    document_id    uuid        NOT NULL,
    number         int         NOT NULL CHECK (number > 0),
    state          text        NOT NULL DEFAULT 'queued'
                   CHECK (state IN ('queued', 'running', 'completed', 'failed', 'superseded')),
    pages          int         CHECK (pages >= 0),
    pages_done     int         NOT NULL DEFAULT 0,
    text_chars     bigint      NOT NULL DEFAULT 0,
    notes          jsonb       NOT NULL DEFAULT '[]',
    kind           text,
    fields         jsonb,
    reason         text,
    correlation_id text        NOT NULL,
    requested_at   timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz,
    PRIMARY KEY (document_id, tenant_id, number),
    FOREIGN KEY (document_id, tenant_id) REFERENCES documents.document (document_id, tenant_id),
    CHECK (pages_done BETWEEN 0 AND coalesce(pages, 0)),
    CHECK ((state = 'failed') = (reason IS NOT NULL)),
    CHECK ((state = 'completed') = (fields IS NOT NULL)),
    CHECK ((state IN ('queued', 'running')) = (finished_at IS NULL))
);
-- At most one analysis per document is in progress.
CREATE UNIQUE INDEX analysis_under_way ON documents.analysis (document_id, tenant_id)
    WHERE state IN ('queued', 'running');
SELECT onceward_meta.protect('documents.analysis', 'SELECT, INSERT, UPDATE');

CREATE TABLE documents.page (
    tenant_id   text NOT NULL,
    document_id uuid NOT NULL,
    number      int  NOT NULL,
    page_no     int  NOT NULL CHECK (page_no > 0),
    text        text NOT NULL,
    PRIMARY KEY (document_id, tenant_id, number, page_no),
    FOREIGN KEY (document_id, tenant_id, number) REFERENCES documents.analysis (document_id, tenant_id, number)
);
SELECT onceward_meta.protect('documents.page', 'SELECT, INSERT');
