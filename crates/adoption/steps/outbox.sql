-- Creating the trigger keeps writers out until the commit, so nothing comes between the last message that waited and the
-- first that is published at once.
CREATE OR REPLACE TRIGGER adoption_publish_at_once BEFORE INSERT ON "@schema".outbox
    FOR EACH ROW EXECUTE FUNCTION adoption.publish_at_once();
DO $step$
BEGIN
    WHILE adoption.drain('@schema', 1000) > 0 LOOP NULL; END LOOP;
END
$step$;
