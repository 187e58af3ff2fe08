ALTER TABLE "@schema"."@table" ADD COLUMN IF NOT EXISTS amount_minor bigint;
CREATE OR REPLACE TRIGGER adoption_keep_in_step BEFORE INSERT OR UPDATE OF amount, amount_minor ON "@schema"."@table"
    FOR EACH ROW EXECUTE FUNCTION adoption.keep_in_step('@below_zero');
CREATE OR REPLACE TRIGGER adoption_forget AFTER DELETE ON "@schema"."@table"
    FOR EACH ROW EXECUTE FUNCTION adoption.forget();
