-- These look at the front of a lane, however long it is. A bitmap gathers all of it first, and without fresh statistics
-- the planner takes it for the cheaper way: looking for work then costs more the more of it waits.
ALTER FUNCTION onceward.lanes_with_work(int) SET enable_bitmapscan = off;
ALTER FUNCTION onceward.take_turns(int[], int) SET enable_bitmapscan = off;
ALTER FUNCTION onceward.queue_stats(int) SET enable_bitmapscan = off;
