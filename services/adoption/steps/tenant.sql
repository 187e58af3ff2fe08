-- A constant default is stored in the catalog: no row is rewritten, and the old program can ignore the column.
ALTER TABLE "@schema"."@table" ADD COLUMN IF NOT EXISTS tenant_id text NOT NULL DEFAULT '@tenant';
