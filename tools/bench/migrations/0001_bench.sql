CREATE TABLE bench.business (
    tenant_id text NOT NULL,
    id        uuid NOT NULL,
    note      text NOT NULL,
    PRIMARY KEY (tenant_id, id)
);
SELECT onceward_meta.protect('bench.business');

-- The limit that queues are compared with: the smallest possible durable transaction.
CREATE TABLE bench.one_row (id uuid PRIMARY KEY, note text NOT NULL);
