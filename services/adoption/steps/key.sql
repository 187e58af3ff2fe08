ALTER TABLE "@schema"."@table" ADD CONSTRAINT "@table_tenant_key" UNIQUE USING INDEX "@table_tenant_key";
