//! The statements of the benches.

pub(crate) const WAL_BYTES: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
pub(crate) const INSERT_BUSINESS: &str = "INSERT INTO bench.business (tenant_id, id, note) VALUES ($1, $2, $3)";
pub(crate) const INSERT_ONE_ROW: &str = "INSERT INTO bench.one_row (id, note) VALUES ($1, $2)";
pub(crate) const UNREAD_LANES: &str =
    "SELECT count(*) FROM onceward.queue q CROSS JOIN LATERAL onceward.lanes_with_work(q.id)";
pub(crate) const HOLD_SNAPSHOT: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id(); SELECT count(*) FROM onceward.lane";
