//! The server itself: the settings that our guarantees rely on, and its connection limits.

use super::{CheckContext, DoctorFinding, store};
use std::collections::HashMap;

/// Connections beside the pool, with which a process looks up routes and listens.
const CONNECTIONS_BESIDE_POOL: i32 = 5;
/// The first version with views that respect the reader's rights.
const OLDEST: i32 = 150_000;

const NAMES: &[&str] = &[
    "server_version_num",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "transaction_read_only",
    "autovacuum",
    "track_counts",
    "server_encoding",
];

pub(super) async fn settings(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::SETTINGS, &[&NAMES]).await?;
    Ok(evaluate(&rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
}

fn evaluate(settings: &HashMap<String, String>) -> Vec<DoctorFinding> {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
    let mut findings = Vec::new();
    let mut find = |wrong: bool, what: &str, advice: &str| {
        if wrong {
            findings.push(DoctorFinding::critical(what, advice));
        }
    };
    let version: Option<i32> = settings.get("server_version_num").and_then(|text| text.parse().ok());
    find(
        version.is_some_and(|version| version < OLDEST),
        "this PostgreSQL is older than version 15, so views do not isolate tenants",
        "upgrade to PostgreSQL 15 or newer",
    );
    find(
        is("fsync", "off"),
        "fsync is off: a machine crash can lose or corrupt all data",
        "set fsync = on, and reload",
    );
    find(
        is("full_page_writes", "off"),
        "full_page_writes is off: a machine crash can corrupt pages",
        "set full_page_writes = on, and reload",
    );
    find(
        is("synchronous_commit", "off"),
        "synchronous_commit is off: a crash can lose confirmed commits and their messages",
        "set synchronous_commit = on for this database and its roles",
    );
    let isolation = settings.get("default_transaction_isolation").map_or("read committed", String::as_str);
    find(
        isolation != "read committed",
        &format!("the default isolation level is {isolation}, but a turn must see what was committed while it waited"),
        "set default_transaction_isolation = 'read committed' for this database and its roles",
    );
    find(
        is("transaction_read_only", "on") || is("default_transaction_read_only", "on"),
        "transactions are read-only: this is a standby, or default_transaction_read_only is on",
        "point DATABASE_URL at the primary, or switch the setting off for this database and its roles",
    );
    find(
        is("autovacuum", "off") || is("track_counts", "off"),
        "autovacuum is off: updated tables grow without limit",
        "set autovacuum = on and track_counts = on, and reload",
    );
    find(
        settings.get("server_encoding").is_some_and(|encoding| encoding != "UTF8"),
        "the database's encoding is not UTF8, so some texts cannot be stored",
        "create the database with ENCODING 'UTF8'",
    );
    findings
}

pub(super) async fn connections(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::CONNECTIONS, &[]).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let pool = i32::try_from(context.config.database.pool_size).unwrap_or(i32::MAX);
    let limits = [Some(row.get::<_, i32>(0) - row.get::<_, i32>(1)), row.get(3), row.get(4)];
    let allowed = limits.into_iter().flatten().min().unwrap_or(i32::MAX);
    Ok(evaluate_connections(pool.saturating_add(CONNECTIONS_BESIDE_POOL), allowed, row.get(2)))
}

/// `wanted` is what one process may open, `allowed` what the server, the role and the database permit us, `used` the
/// number now in use by all clients.
fn evaluate_connections(wanted: i32, allowed: i32, used: i32) -> Vec<DoctorFinding> {
    let advice =
        "lower database.pool_size, run fewer processes, or raise max_connections or the role's CONNECTION LIMIT";
    if wanted > allowed {
        let what = format!("one process may open {wanted} connections, but the server allows only {allowed} in total");
        return vec![DoctorFinding::critical(what, advice)];
    }
    if used.saturating_mul(10) >= allowed.saturating_mul(9) {
        return vec![DoctorFinding::warning(format!("{used} of {allowed} connections are in use"), advice)];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(settings: &[(&str, &str)]) -> Vec<String> {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        evaluate(&settings).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_correctly_configured_server_has_no_findings() {
        let good = [
            ("server_version_num", "150004"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "local"),
            ("default_transaction_isolation", "read committed"),
            ("transaction_read_only", "off"),
            ("autovacuum", "on"),
            ("server_encoding", "UTF8"),
        ];
        assert_eq!(evaluated(&good), [""; 0]);
    }

    #[test]
    fn each_unsafe_setting_is_reported() {
        for (name, value) in [
            ("server_version_num", "140011"),
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("synchronous_commit", "off"),
            ("default_transaction_isolation", "repeatable read"),
            ("transaction_read_only", "on"),
            ("default_transaction_read_only", "on"),
            ("autovacuum", "off"),
            ("track_counts", "off"),
            ("server_encoding", "SQL_ASCII"),
        ] {
            assert_eq!(evaluated(&[(name, value)]).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_pool_that_is_too_large_and_a_server_that_is_nearly_full_are_distinguished() {
        assert_eq!(evaluate_connections(21, 97, 40), []);
        assert!(evaluate_connections(21, 97, 90)[0].what.contains("90 of 97"));
        assert!(evaluate_connections(105, 97, 1)[0].what.contains("105"));
    }
}
