//! All statements of the bus. The functions of the same names in the migrations document what they do.

pub const APPEND: &str = "SELECT onceward.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)";
pub const APPEND_ONE: &str = "SELECT onceward.append_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
pub const LANE_OF: &str = "SELECT onceward.lane_of($1, $2, $3, $4)";
pub const UNROUTED_LANE: &str = "SELECT onceward.unrouted_lane($1, $2)";
pub const LANE_INFO: &str = "SELECT lane_id, queue_id, tenant_id, priority FROM onceward.lane_info($1)";
pub const LANES_WITH_WORK: &str = "SELECT lane_id, tenant_id, priority FROM onceward.lanes_with_work($1)";
pub const NEXT_DUE_MS: &str = "SELECT onceward.next_due_ms($1)";
pub const TAKE_TURNS: &str = "SELECT * FROM onceward.take_turns($1, $2)";
/// The second parameter is the lock class.
pub const LOCK_LANES: &str =
    "SELECT ARRAY(SELECT l FROM unnest($1::int[]) AS l WHERE pg_try_advisory_xact_lock($2, l))";
/// Marks a transaction as a relay's and sets how its statements are planned: by keys, whatever the statistics suggest.
pub const MARK_AS_RELAY: &str = "SET LOCAL onceward.relay = 'on'; SET LOCAL plan_cache_mode = force_generic_plan; \
    SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";
/// Does the same as `onceward.take_turns` after the lock, but its rows come straight from the log.
pub const TAKE_OUTBOX: &str = "
    WITH place AS MATERIALIZED (SELECT * FROM onceward.places($1, $2, true))
    SELECT p.lane_id, p.about, p.seq, p.created_at, p.occurred_at, p.id, p.version, p.event_type, p.topic, p.ordering_key,
           p.idempotency_key, p.correlation_uuid, p.correlation_id, p.causation_id, p.headers, p.payload
    FROM place p
    UNION ALL
    SELECT p.lane_id,
           CASE WHEN p.has_cancelled AND onceward.is_cancelled(p.lane_id, m.seq) THEN json_build_object('cancelled', true)
           WHEN m.ordering_key IS NOT NULL AND p.has_blocked AND onceward.is_blocked(p.lane_id, m.ordering_key)
           THEN json_build_object('tenant_id', m.tenant_id, 'blocked', true)
           WHEN m.tenant_id <> p.tenant_id THEN json_build_object('tenant_id', m.tenant_id) END,
           m.seq, m.created_at, m.occurred_at, m.id, nullif(m.version, 1::smallint), m.event_type, m.topic, m.ordering_key,
           m.idempotency_key, m.correlation_uuid, m.correlation_id, m.causation_id, m.headers, m.payload
    FROM place p
    CROSS JOIN LATERAL (
        SELECT * FROM onceward.message_to_carry m WHERE m.lane_id = p.lane_id AND m.seq > p.last_seq ORDER BY m.seq LIMIT $2) m
    WHERE p.seq IS NULL";
/// A single statement, so that it is a transaction of its own. A lost record costs one more try, so it need not be
/// flushed.
pub const NOTE_START: &str = "SELECT set_config('synchronous_commit', 'off', true), onceward.note_start($1, $2)";
pub const DEFER: &str = "SELECT lane_id, seq, id FROM onceward.defer($1)";
pub const REDEFER: &str = "SELECT onceward.redefer($1)";
pub const SETTLE_DEFERRED: &str = "SELECT onceward.settle_deferred($1, $2)";
pub const PASS_CANCELLED: &str = "SELECT onceward.pass_cancelled($1, $2)";
pub const CANCEL: &str = "SELECT * FROM onceward.cancel($1, $2, $3, $4, $5)";
pub const LAND: &str =
    "SELECT onceward.land($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
pub const SAVE_POSITIONS: &str = "SELECT onceward.save_positions($1, $2)";
pub const POSITIONS: &str = "SELECT queue, source, partition, next_offset, last_ms FROM onceward.positions($1)";
pub const COUNT_LANDED: &str = "SELECT onceward.count_landed($1, $2)";
pub const NOTE_BACKLOGS: &str =
    "SELECT queue, oldest_at FROM onceward.note_backlogs($1, $2, $3::bigint * interval '1 millisecond', $4)";
pub const RECORD_INBOX: &str = "SELECT onceward.record_inbox($1, $2, $3)";
pub const BURY: &str = "SELECT onceward.bury($1)";
pub const NOTE_ATTEMPTS: &str = "SELECT onceward.note_attempts($1)";
pub const FORGET_ATTEMPTS: &str = "SELECT onceward.forget_attempts($1)";
pub const STORY_ATTEMPTS: &str = "SELECT id, queue, attempt, at, error FROM onceward.story_attempts($1)";
pub const END_LEASE: &str = "SELECT onceward.end_lease($1, $2)";
pub const RETURN_LEASE: &str = "SELECT onceward.return_lease($1, $2)";
pub const START_ALONE: &str = "SELECT onceward.start_alone($1, $2)";
pub const HEARTBEAT: &str = "SELECT * FROM onceward.heartbeat($1, $2, $3)";
pub const RECHECK_WAITING: &str = "SELECT onceward.recheck_waiting($1)";
pub const NOTIFY: &str = "SELECT pg_notify('onceward_wake', $1)";
pub const QUEUE_STATS: &str =
    "SELECT queue, depth, lag_seconds, deferred, dead, deferred_is_more, dead_is_more FROM onceward.queue_stats($1)";
pub const UNROUTED: &str =
    "SELECT exchange, event_type, messages, is_more, example, first_at, last_at FROM onceward.unrouted($1)";
pub const UNKNOWN_MESSAGES: &str =
    "SELECT queue, messages, is_more, oldest_seconds, event_types FROM onceward.unknown_messages($1)";
pub const SET_KEY_DAYS: &str = "SELECT onceward.set_key_days($1)";
pub const OPEN_EPOCH: &str = "SELECT onceward.open_epoch($1::bigint * interval '1 second')";
pub const DROP_EPOCH: &str = "SELECT onceward.drop_epoch($1::bigint * interval '1 second')";
pub const FORGET: &str = "SELECT onceward.forget($1::bigint * interval '1 second', $2)";
pub const FORGET_LETTERS: &str = "SELECT onceward.forget_letters($1::bigint * interval '1 second', $2)";
pub const TOPOLOGY_VERSION: &str = "SELECT topology_version, bus, key_days FROM onceward.log_state";
pub const EXCHANGES: &str = "SELECT name, kind FROM onceward.exchange";
pub const QUEUES: &str = "SELECT id, name, shards, max_priority, definition FROM onceward.queue";
pub const BINDINGS: &str = "SELECT exchange, queue_id, pattern FROM onceward.binding";
pub const FIND_DEAD_LETTERS: &str = "SELECT * FROM onceward.find_dead_letters($1, $2, $3)";
pub const DEAD_LETTERS_IN_ORDER: &str = "SELECT onceward.dead_letters_in_order($1, $2, $3)";
pub const DEAD_LETTERS_IN_FULL: &str = "SELECT * FROM onceward.dead_letters_in_full($1)";
pub const DEAD_LETTER_ACTS: &str = "SELECT * FROM onceward.dead_letter_acts($1, $2, $3)";
pub const PLAN_REQUEUE: &str = "SELECT * FROM onceward.plan_requeue($1, $2, $3, $4, $5) WHERE id IS NOT NULL";
pub const REQUEUE: &str = "SELECT * FROM onceward.requeue($1, $2, $3, $4, $5, $6, $7)";
pub const QUARANTINE: &str = "SELECT * FROM onceward.quarantine($1, $2, $3, $4)";
pub const RELEASE: &str = "SELECT * FROM onceward.release($1, $2, $3)";
pub const FOLLOWERS: &str = "SELECT onceward.waiting_behind($1)";
pub const WAITING_FOLLOWERS: &str = "SELECT event_id, event_type, written_at FROM onceward.waiting_followers($1, $2)";
pub const HELD_KEYS: &str = "SELECT queue, keys, is_more, longest_seconds FROM onceward.held_keys($1)";
pub const COLLECT: &str = "SELECT onceward.collect($1, $2, $3, $4, $5)";
pub const OUTBOX_ASIDE: &str =
    "SELECT put_aside, oldest_seconds, refused, next_due_ms, last_error, is_more FROM onceward.outbox_aside($1)";
pub const RETRY_OUTBOX: &str = "SELECT onceward.retry_outbox($1, $2)";
pub const MARK_LOG: &str = "SELECT onceward.mark_log($1::bigint * interval '1 second')";
pub const EPOCH_TO_INDEX: &str = "SELECT onceward.epoch_to_index($1::bigint * interval '1 second')";
pub const INDEX_EPOCH: &str = "SELECT onceward.index_epoch($1)";
pub const SEQ_RANGE: &str = "SELECT after_seq, upto_seq FROM onceward.seq_range($1, $2)";
pub const STORY_PARTS: &str = "SELECT * FROM onceward.story_parts()";
pub const STORY_LOG: &str = "SELECT * FROM onceward.story_log($1, $2, $3, $4, $5, $6)";
pub const STORY_DEFERRED: &str = "SELECT * FROM onceward.story_deferred($1, $2, $3)";
pub const STORY_DEAD: &str = "SELECT * FROM onceward.story_dead($1, $2)";
pub const QUEUE_CONTROLS: &str = "SELECT queue_id, queue, tenant_id, remaining_ms, ends_at, per_second, burst, set_at, set_by, why \
     FROM onceward.queue_controls()";
pub const PAUSE_QUEUE: &str = "SELECT onceward.pause_queue($1, $2, $3::bigint * interval '1 millisecond', $4, $5)";
pub const RESUME_QUEUE: &str = "SELECT onceward.resume_queue($1, $2)";
pub const LIMIT_QUEUE: &str = "SELECT onceward.limit_queue($1, $2, $3, $4, $5, $6)";
pub const UNLIMIT_QUEUE: &str = "SELECT onceward.unlimit_queue($1, $2)";
pub const TAKE_PERMITS: &str = "SELECT granted, wait_ms, is_tenants FROM onceward.take_permits($1, $2, $3)";
pub const RETURN_PERMITS: &str = "SELECT onceward.return_permits($1, $2, $3)";
pub const DECLARE_POOL: &str = "SELECT onceward.declare_pool($1, $2, $3, $4)";
pub const REPORT_POOL: &str =
    "SELECT size, members, rank, settings, is_check_due FROM onceward.report_pool($1, $2, $3, $4, $5)";
pub const LEAVE_POOLS: &str = "SELECT onceward.leave_pools($1)";
pub const POOL_FIGURES: &str = "SELECT * FROM onceward.pool_figures($1)";
pub const SAVE_POOL_SIZE: &str = "SELECT onceward.save_pool_size($1, $2, $3, $4, $5, $6)";
pub const POOLS: &str = "SELECT * FROM onceward.pools()";
pub const POOL_DECISIONS: &str = "SELECT at, from_size, to_size, reason FROM onceward.pool_decisions($1, $2)";
pub const SET_POOL: &str = "SELECT onceward.set_pool($1, $2, $3)";
