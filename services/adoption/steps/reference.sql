-- NOT VALID: applies to new rows at once; existing rows are validated later, without blocking writers.
ALTER TABLE "@schema"."@table" ADD CONSTRAINT "@table_tenant_reference"
    FOREIGN KEY (tenant_id, "@column") REFERENCES "@schema"."@target" (tenant_id, id) NOT VALID;
