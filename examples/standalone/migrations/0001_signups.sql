CREATE TABLE signups.account (
    tenant_id  text NOT NULL,
    account_id uuid NOT NULL,
    name       text NOT NULL,
    PRIMARY KEY (tenant_id, account_id)
);
SELECT onceward_meta.protect('signups.account');
