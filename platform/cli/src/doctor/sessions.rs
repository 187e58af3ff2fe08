//! Finds what keeps old rows alive: open transactions, prepared transactions, and replication.

use super::{CheckContext, DoctorFinding, humanize, store};
use onceward_db::Row;

/// The age in transactions from which on a snapshot is reported, regardless of its holder.
const OLD_SNAPSHOT: i32 = 1_000_000;
/// An idle slot that retains less than this is harmless.
const RETAINED_BYTES: f64 = 1e9;

pub(super) async fn sessions(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::SESSIONS, &[&context.stalled_after_s()]).await?;
    let mut findings: Vec<DoctorFinding> = rows.iter().map(session).collect();
    let hidden = context.query(store::HIDDEN_SESSIONS, &[]).await?;
    let (count, us): (i64, &str) = (hidden[0].get(0), hidden[0].get(1));
    if count > 0 {
        let what = format!("{count} sessions of other users cannot be checked");
        findings.push(DoctorFinding::warning(what, format!("run `GRANT pg_monitor TO {us}` as a superuser")));
    }
    Ok(findings)
}

fn session(row: &Row) -> DoctorFinding {
    let (pid, user, program): (i32, Option<&str>, Option<&str>) = (row.get(0), row.get(1), row.get(2));
    let (state, seconds): (Option<&str>, f64) = (row.get(3), row.get(4));
    let age: Option<i32> = row.get(6);
    let pins = match (row.get::<_, bool>(5), age) {
        (true, Some(age)) => {
            format!("; it pins a snapshot {age} transactions old, so rows that died since then are not removed")
        }
        (true, None) => "; it pins a snapshot".to_owned(),
        (false, _) => "; it pins no snapshot, but holds its locks".to_owned(),
    };
    let what = format!(
        "session {pid} ({}, {}) has had a transaction open for {}, now {}{pins}",
        user.unwrap_or("?"),
        program.filter(|name| !name.is_empty()).unwrap_or("unnamed program"),
        humanize(seconds),
        state.unwrap_or("hidden")
    );
    DoctorFinding::warning(
        what,
        format!(
            "end the transaction where it was started, or run `SELECT pg_terminate_backend({pid})`; \
                 idle_in_transaction_session_timeout ends idle ones"
        ),
    )
}

pub(super) async fn other_snapshots(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let mut findings = Vec::new();
    for row in context.query(store::PREPARED, &[&context.stalled_after_s()]).await? {
        let (gid, seconds, age): (String, f64, i32) = (row.get(0), row.get(1), row.get(2));
        findings.push(DoctorFinding::warning(
            format!("the prepared transaction {gid} has been open for {} and {age} transactions", humanize(seconds)),
            format!(
                "ask its transaction manager to end it, or run `COMMIT PREPARED` or `ROLLBACK PREPARED` with '{}'",
                gid.replace('\'', "''")
            ),
        ));
    }
    for row in context.query(store::SLOTS, &[&OLD_SNAPSHOT]).await? {
        let (active, age, kept): (bool, Option<i32>, Option<f64>) = (row.get(1), row.get(2), row.get(3));
        findings.extend(slot(row.get(0), active, age, kept.unwrap_or(0.0)));
    }
    for row in context.query(store::STANDBYS_THAT_PIN, &[&OLD_SNAPSHOT]).await? {
        let (name, age): (Option<&str>, i32) = (row.get(0), row.get(1));
        findings.push(DoctorFinding::warning(
            format!("the standby {} pins a snapshot {age} transactions old", name.unwrap_or("?")),
            "end the long query there, or turn hot_standby_feedback off",
        ));
    }
    Ok(findings)
}

fn slot(name: &str, active: bool, age: Option<i32>, retained_bytes: f64) -> Option<DoctorFinding> {
    let old = age.filter(|age| *age > OLD_SNAPSHOT);
    let advice = format!("restart its reader, or run `SELECT pg_drop_replication_slot('{name}')`");
    match (old, active) {
        (Some(age), _) => Some(DoctorFinding::warning(
            format!("the replication slot {name} pins a snapshot {age} transactions old"),
            advice,
        )),
        (None, false) if retained_bytes > RETAINED_BYTES => {
            let kept = retained_bytes / 1e9;
            Some(DoctorFinding::warning(
                format!("the replication slot {name} has no reader and retains {kept:.1} GB of WAL"),
                advice,
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_reported_when_it_pins_a_snapshot_or_retains_much_wal() {
        assert_eq!(slot("s", false, None, 1e6), None);
        assert_eq!(slot("s", true, Some(10), 5e9), None);
        assert!(slot("s", false, None, 5e9).expect("a finding").what.contains("5.0 GB"));
        assert!(slot("s", true, Some(2_000_000), 0.0).expect("a finding").what.contains("2000000"));
    }
}
