-- A constant default is kept in the catalogue: no row is rewritten, and old programs need not know the column.
ALTER TABLE "@schema"."@table" ADD COLUMN IF NOT EXISTS tenant_id text NOT NULL DEFAULT '@tenant';
