//! The statements of this crate.

pub const NOTE_RELAY: &str = "SELECT onceward.note_relay($1, $2, $3, $4)";
pub const FORGET_RELAY: &str = "SELECT onceward.forget_relay($1)";
pub const RECORD_INBOX: &str = "SELECT onceward.record_inbox($1, $2, $3)";
pub const DECLARE_SCHEDULE: &str = "SELECT onceward.declare_schedule($1, $2, $3)";
pub const DUE_SCHEDULES: &str = "SELECT name, next_at FROM onceward.due_schedules($1)";
pub const TICKED: &str = "SELECT onceward.ticked($1, $2, $3)";
pub const ACTIVE_TENANTS: &str = "SELECT id FROM onceward.tenant WHERE active AND id <> 'platform' ORDER BY id";
