-- These functions read only the front of a lane, however long it is. A bitmap scan reads all of it first, and without fresh
-- statistics the planner considers it cheaper: polling would then cost more the more messages wait.
ALTER FUNCTION onceward.lanes_with_work(int) SET enable_bitmapscan = off;
ALTER FUNCTION onceward.take_turns(int[], int) SET enable_bitmapscan = off;
ALTER FUNCTION onceward.queue_stats(int) SET enable_bitmapscan = off;
