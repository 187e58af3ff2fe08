//! The statements of the command line.

pub(crate) const TENANTS: &str = "SELECT id, active FROM onceward.tenant ORDER BY id";
pub(crate) const ADD_TENANT: &str = "SELECT onceward.add_tenant($1)";
pub(crate) const DATABASE_EXISTS: &str = "SELECT FROM pg_database WHERE datname = $1";
pub(crate) const BUS: &str = "SELECT bus FROM onceward.log_state";
pub(crate) const RELAYS: &str =
    "SELECT relay, bus, up, since, last_error, seen_at FROM onceward.relay_state ORDER BY relay";
/// Within one tenant: row-level security binds it.
pub(crate) const ANSWERS: &str = "SELECT status, created_at, expires_at, location FROM onceward_web.idempotency_key
    WHERE ($2::timestamptz IS NULL OR created_at >= $2) AND position(convert_to($1, 'UTF8') IN body) > 0
    ORDER BY created_at LIMIT 20";
