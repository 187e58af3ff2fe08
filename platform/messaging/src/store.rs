//! The statements of this crate.

pub const NOTE_RELAY: &str = "SELECT onceward.note_relay($1, $2, $3, $4)";
pub const FORGET_RELAY: &str = "SELECT onceward.forget_relay($1)";
pub const RECORD_INBOX: &str = "SELECT onceward.record_inbox($1, $2, $3)";
pub const DECLARE_SCHEDULE: &str = "SELECT onceward.declare_schedule($1, $2, $3)";
pub const DATABASE_TIME: &str = "SELECT clock_timestamp()";
pub const DUE_NAMES: &str =
    "SELECT name FROM onceward.schedule WHERE name = ANY ($1) AND next_at <= clock_timestamp() ORDER BY next_at";
pub const DUE_SCHEDULES: &str = "SELECT name, next_at, now FROM onceward.due_schedules($1)";
pub const SCHEDULE_FAILED: &str = "SELECT onceward.schedule_failed($1, $2)";
pub const FAILING_SCHEDULES: &str = "
    SELECT name, failing_since, last_error
    FROM onceward.schedule
    WHERE name = ANY ($1) AND failing_since IS NOT NULL
    ORDER BY name";
pub const TICKED: &str = "SELECT onceward.ticked($1, $2, $3)";
pub const ACTIVE_TENANTS: &str = "SELECT id FROM onceward.tenant WHERE active AND id <> 'platform' ORDER BY id";
