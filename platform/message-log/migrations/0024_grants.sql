-- Who may call the functions: the application role, except those that only other functions or the owner call.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA onceward FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA onceward TO onceward_app;
REVOKE ALL ON FUNCTION
    onceward.unread_rows(uuid, text),
    onceward.bury_cancelled(jsonb, onceward.queue, text, text, text),
    onceward.cancel_unread(int, bigint, text, text, text),
    onceward.cancel_landed(text, uuid[], int[]),
    onceward.read_in(onceward.message_log, jsonb),
    onceward.waiting_work(text[], int),
    onceward.unbind_queue(text),
    onceward.mark_quiet()
FROM onceward_app;
-- It only computes.
REVOKE ALL ON FUNCTION onceward.uuid_time(uuid) FROM onceward_app;
GRANT EXECUTE ON FUNCTION onceward.uuid_time(uuid) TO PUBLIC;
