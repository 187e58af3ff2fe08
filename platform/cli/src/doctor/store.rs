//! The queries of the checks. Plain statements and no functions, because a migration may be missing.

pub(super) const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name = ANY ($1)";

pub(super) const CONNECTIONS: &str = "
    SELECT current_setting('max_connections')::int,
           current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true)::int, 0),
           (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'),
           nullif(r.rolconnlimit, -1), nullif(d.datconnlimit, -1)
    FROM pg_roles r, pg_database d WHERE r.rolname = session_user AND d.datname = current_database()";

pub(super) const CLOCK: &str = "SELECT clock_timestamp()";

/// `$1` is the token that must arrive.
pub(super) const NOTIFY: &str = "SELECT pg_notify('onceward_doctor', $1)";

pub(super) const MIGRATED: &str = "SELECT to_regclass('onceward_meta.migration') IS NOT NULL";
pub(super) const MIGRATIONS: &str = "SELECT schema_name, name, checksum FROM onceward_meta.migration";

pub(super) const INDEXES: &str = "
    SELECT n.nspname || '.' || c.relname, x.indisvalid AND x.indisready, t.relkind = 'p'
    FROM pg_index x
    JOIN pg_class c ON c.oid = x.indexrelid
    JOIN pg_class t ON t.oid = x.indrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY ($1)";

/// Partitions of the log whose lanes cannot be read by an index.
pub(super) const PARTITIONS_WITHOUT_INDEX: &str = "
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('onceward.message_log') AND NOT EXISTS (
        SELECT FROM pg_index x JOIN pg_inherits p ON p.inhrelid = x.indexrelid
        WHERE x.indrelid = c.oid AND x.indisvalid AND p.inhparent = to_regclass('onceward.message_log_lane_seq'))";

/// Only sessions of this database keep rows of this database alive.
pub(super) const SESSIONS: &str = "
    SELECT a.pid, a.usename, a.application_name, a.state, extract(epoch FROM now() - a.xact_start)::float8,
           a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL,
           greatest(age(a.backend_xmin), age(a.backend_xid))
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
      AND a.xact_start < now() - $1 * interval '1 second'
    ORDER BY a.xact_start LIMIT 20";

/// Sessions of other users, whose state is hidden from us.
pub(super) const HIDDEN_SESSIONS: &str = "
    SELECT count(*), session_user::text FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.query = '<insufficient privilege>'";

pub(super) const PREPARED: &str = "
    SELECT gid, extract(epoch FROM now() - prepared)::float8, age(transaction) FROM pg_prepared_xacts
    WHERE database = current_database() AND prepared < now() - $1 * interval '1 second' ORDER BY prepared LIMIT 20";

pub(super) const SLOTS: &str = "
    SELECT slot_name, active, greatest(age(xmin), age(catalog_xmin)),
           (CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) END)::float8
    FROM pg_replication_slots
    WHERE NOT active OR age(xmin) > $1 OR age(catalog_xmin) > $1";

pub(super) const STANDBYS_THAT_PIN: &str =
    "SELECT application_name, age(backend_xmin) FROM pg_stat_replication WHERE age(backend_xmin) > $1";

/// Partitions of the log are left alone: see `docs/decisions/0018-a-relay-carries-rows.md`.
pub(super) const VACUUM: &str = "
    SELECT s.schemaname || '.' || s.relname, s.n_dead_tup, s.n_live_tup,
           extract(epoch FROM now() - greatest(s.last_vacuum, s.last_autovacuum))::float8,
           coalesce('autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions), false)
               AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid AND i.inhparent = to_regclass('onceward.message_log'))
    FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
    WHERE s.schemaname = ANY ($1)";

pub(super) const FREEZE: &str = "SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()";

pub(super) const EPOCHS: &str = "
    SELECT e.epoch, extract(epoch FROM now() - e.opened_at)::float8, extract(epoch FROM now() - e.closed_at)::float8,
           to_regclass('onceward.message_log_' || e.epoch) IS NOT NULL, e.indexed_at IS NOT NULL, e.index_tries
    FROM onceward.log_epoch e ORDER BY e.epoch";

/// Partitions that are missing from the list of partitions.
pub(super) const UNLISTED_PARTITIONS: &str = "
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('onceward.message_log')
      AND NOT EXISTS (SELECT FROM onceward.log_epoch e WHERE c.relname = 'message_log_' || e.epoch)";

/// Returns a query for the queues that have not finished reading a partition.
pub(super) fn unread_in(epoch: i32) -> String {
    format!(
        "SELECT q.name, count(*) FROM onceward.lane l JOIN onceward.queue q ON q.id = l.queue_id
         LEFT JOIN LATERAL (SELECT t.last_seq, t.open_floors FROM onceward.lane_turn t WHERE t.lane_id = l.id ORDER BY t.turn DESC LIMIT 1) c ON true
         WHERE EXISTS (SELECT FROM onceward.message_log_{epoch} m WHERE m.lane_id = l.id
                       AND m.seq > coalesce((SELECT min(f) FROM unnest(c.open_floors) AS f), c.last_seq, 0))
         GROUP BY 1 ORDER BY 1"
    )
}

/// Lanes in which messages wait but that no worker has taken a turn on for a while, and how many of them a worker holds
/// now. The second parameter is the lock class of lanes.
pub(super) const STUCK_LANES: &str = "
    SELECT q.name, count(*), max(extract(epoch FROM clock_timestamp() - w.created_at))::float8,
           count(*) FILTER (WHERE EXISTS (
               SELECT FROM pg_locks k WHERE k.locktype = 'advisory' AND k.classid = $2::int::oid AND k.objid = l.id::oid AND k.objsubid = 2
                 AND k.granted AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())))
    FROM onceward.lane l
    JOIN onceward.queue q ON q.id = l.queue_id
    LEFT JOIN LATERAL (SELECT t.last_seq, t.taken_at FROM onceward.lane_turn t WHERE t.lane_id = l.id ORDER BY t.turn DESC LIMIT 1) c ON true
    CROSS JOIN LATERAL (SELECT m.created_at FROM onceward.message_log m
                        WHERE m.lane_id = l.id AND m.seq > coalesce(c.last_seq, 0) ORDER BY m.seq LIMIT 1) w
    WHERE w.created_at < clock_timestamp() - $1 * interval '1 second'
      AND coalesce(c.taken_at, '-infinity') < clock_timestamp() - $1 * interval '1 second'
    GROUP BY 1 ORDER BY 1";

pub(super) const UNFINISHED_TURNS: &str = "
    SELECT q.name, max(s.starts) FROM onceward.turn_start s JOIN onceward.lane l ON l.id = s.lane_id
    JOIN onceward.queue q ON q.id = l.queue_id WHERE s.starts >= 2 GROUP BY 1 ORDER BY 1";

pub(super) const OVERDUE_DEFERRED: &str = "
    SELECT q.name, count(*), max(extract(epoch FROM clock_timestamp() - d.due_at))::float8
    FROM onceward.deferred d JOIN onceward.queue q ON q.id = d.queue_id
    WHERE d.due_at < clock_timestamp() - $1 * interval '1 second' GROUP BY 1 ORDER BY 1";

/// Counts at most 1000 messages per queue.
pub(super) const UNKNOWN_MESSAGES: &str = "
    SELECT q.name, least(w.messages, 1000), w.messages > 1000, extract(epoch FROM clock_timestamp() - w.oldest)::float8, w.event_types[1:5]
    FROM onceward.queue q
    CROSS JOIN LATERAL (
        SELECT count(*) AS messages, min(s.created_at) AS oldest, array_agg(DISTINCT s.event_type) AS event_types
        FROM (SELECT d.created_at, (d.message->>'event_type') || '.v' || (d.message->>'version') AS event_type
              FROM onceward.deferred d
              WHERE d.queue_id = q.id AND d.state = 'unknown'
              ORDER BY d.created_at
              LIMIT 1001) s) w
    WHERE w.messages > 0
    ORDER BY q.name";

pub(super) const FAILING_SCHEDULES: &str = "
    SELECT name, extract(epoch FROM clock_timestamp() - failing_since)::float8, coalesce(last_error, '')
    FROM onceward.schedule
    WHERE name = ANY ($1) AND failing_since IS NOT NULL
    ORDER BY name";

pub(super) const OVERDUE_SCHEDULES: &str = "
    SELECT name, extract(epoch FROM clock_timestamp() - next_at)::float8 FROM onceward.schedule
    WHERE name = ANY ($1) AND next_at < clock_timestamp() - $2 * interval '1 second' ORDER BY 1";

/// Unresolved dead letters by queue.
pub(super) const OPEN_LETTERS: &str = "
    SELECT queue, count(*), max(extract(epoch FROM clock_timestamp() - dead_at))::float8
    FROM onceward.dead_letters
    WHERE status = 'dead'
    GROUP BY queue
    ORDER BY queue";

/// Keys that dead letters have held for longer than `$1` seconds, by queue, with the number of messages that wait behind them.
pub(super) const LONG_HELD_KEYS: &str = "
    SELECT d.queue,
           count(*),
           max(extract(epoch FROM clock_timestamp() - d.dead_at))::float8,
           sum(onceward.followers(d.id))::bigint
    FROM onceward.deferred h
    JOIN onceward.dead_letters d ON d.id = h.dead_letter_id
    WHERE h.dead_letter_id IS NOT NULL
      AND d.dead_at < clock_timestamp() - $1 * interval '1 second'
    GROUP BY d.queue
    ORDER BY d.queue";

/// `$1` are queues; `$2` is how many seconds after its first failure a message of each queue should have been given up.
pub(super) const RETRIED_TOO_LONG: &str = "
    SELECT q.name, count(*), max(extract(epoch FROM clock_timestamp() - d.first_failed_at))::float8, max(d.attempts)
    FROM unnest($1::text[], $2::float8[]) AS p (queue, most_s)
    JOIN onceward.queue q ON q.name = p.queue
    JOIN onceward.deferred d ON d.queue_id = q.id
    WHERE d.state = 'retry'
      AND d.first_failed_at < clock_timestamp() - p.most_s * interval '1 second'
    GROUP BY q.name
    ORDER BY q.name";

/// Followers become due when the message before them is done; if no message is before them, they never become due.
pub(super) const ORPHANED_FOLLOWERS: &str = "
    SELECT q.name, count(*)
    FROM onceward.deferred d
    JOIN onceward.queue q ON q.id = d.queue_id
    WHERE d.state = 'parked'
      AND d.due_at IS NULL
      AND d.created_at < clock_timestamp() - $1 * interval '1 second'
      AND NOT EXISTS (
          SELECT FROM onceward.deferred h
          WHERE h.lane_id = d.lane_id
            AND h.ordering_key = d.ordering_key
            AND h.blocks
            AND (h.due_at IS NOT NULL OR h.state = 'held'))
    GROUP BY q.name
    ORDER BY q.name";
