-- Creating the trigger blocks writers until the commit, so no message is written between the last one that is published
-- here and the first one that the trigger publishes.
CREATE OR REPLACE TRIGGER adoption_publish_at_once BEFORE INSERT ON "@schema".outbox
    FOR EACH ROW EXECUTE FUNCTION adoption.publish_at_once();
DO $step$
BEGIN
    WHILE adoption.drain('@schema', 1000) > 0 LOOP NULL; END LOOP;
END
$step$;
