//! The statements of this crate.

pub(crate) const APPEND: &str = "SELECT audit.append($1)";
pub(crate) const EXISTS: &str = "SELECT to_regclass('audit.entry') IS NOT NULL";
pub(crate) const CHAINS: &str = "SELECT tenant_id FROM audit.chains()";
/// The head and the last entry in one snapshot, so that no append can come in between.
pub(crate) const END: &str = "
    SELECT h.seq, h.hash, h.moved_at, (SELECT max(seq) FROM audit.entry WHERE tenant_id = $1)
    FROM (SELECT) one
    LEFT JOIN LATERAL (
        SELECT seq, hash, moved_at FROM audit.head WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1) h ON true";
pub(crate) const PAGE: &str = "
    SELECT tenant_id, seq, occurred_at, event_type, actor, object_type, object_id, loan_id, correlation_id,
        document, prev_hash, record_hash
    FROM audit.entry
    WHERE tenant_id = $1 AND seq > $2 AND seq <= $3
    ORDER BY seq
    LIMIT $4";
pub(crate) const LIST: &str = "
    SELECT tenant_id, seq, occurred_at, event_type, actor, object_type, object_id, loan_id, correlation_id,
        document, prev_hash, record_hash
    FROM audit.entry
    WHERE tenant_id = $1
      AND ($2::text IS NULL OR object_type = $2)
      AND ($3::text IS NULL OR object_id = $3)
      AND ($4::text IS NULL OR loan_id = $4)
      AND ($5::text IS NULL OR event_type = $5)
      AND ($6::text IS NULL OR actor = $6)
      AND ($7::text IS NULL OR correlation_id = $7)
      AND ($8::timestamptz IS NULL OR occurred_at >= $8)
      AND seq < $9
    ORDER BY seq DESC
    LIMIT $10";
