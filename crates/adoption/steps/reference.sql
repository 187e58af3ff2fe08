-- Not valid at first: it binds new rows at once and looks at the others later, without keeping writers out.
ALTER TABLE "@schema"."@table" ADD CONSTRAINT "@table_tenant_reference"
    FOREIGN KEY (tenant_id, "@column") REFERENCES "@schema"."@target" (tenant_id, id) NOT VALID;
