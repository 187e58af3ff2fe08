//! The statements of the command line.

pub(crate) const TENANTS: &str = "SELECT id, active FROM onceward.tenant ORDER BY id";
pub(crate) const ADD_TENANT: &str = "SELECT onceward.add_tenant($1)";
pub(crate) const DATABASE_EXISTS: &str = "SELECT FROM pg_database WHERE datname = $1";
/// Limited to one tenant by row-level security.
pub(crate) const STORED_RESPONSES: &str =
    "SELECT status, created_at, expires_at, location FROM onceward_web.idempotency_key
    WHERE ($2::timestamptz IS NULL OR created_at >= $2) AND position(convert_to($1, 'UTF8') IN body) > 0
    ORDER BY created_at LIMIT 20";
