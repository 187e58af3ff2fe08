//! The statements of the command line.

pub(crate) const TENANTS: &str = "SELECT id, active FROM onceward.tenant ORDER BY id";
pub(crate) const ADD_TENANT: &str = "SELECT onceward.add_tenant($1)";
pub(crate) const DATABASE_EXISTS: &str = "SELECT FROM pg_database WHERE datname = $1";
