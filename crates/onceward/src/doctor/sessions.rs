//! Who keeps old rows alive: open transactions, prepared ones, and replication.

use super::{Finding, Patient, store, words};
use onceward_db::Row;

/// A snapshot that is so many transactions old is worth a word, whoever holds it.
const OLD_SNAPSHOT: i32 = 1_000_000;
/// An idle slot that keeps less than this does no harm yet.
const KEPT_BYTES: f64 = 1e9;

pub(super) async fn sessions(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let rows = patient.ask(store::SESSIONS, &[&patient.long_s()]).await?;
    let mut findings: Vec<Finding> = rows.iter().map(session).collect();
    let hidden = patient.ask(store::HIDDEN_SESSIONS, &[]).await?;
    let (count, us): (i64, &str) = (hidden[0].get(0), hidden[0].get(1));
    if count > 0 {
        let what = format!("{count} sessions of other users cannot be looked at");
        findings.push(Finding::warning(what, format!("as a superuser run `GRANT pg_monitor TO {us}`")));
    }
    Ok(findings)
}

fn session(row: &Row) -> Finding {
    let (pid, user, program): (i32, Option<&str>, Option<&str>) = (row.get(0), row.get(1), row.get(2));
    let (state, seconds): (Option<&str>, f64) = (row.get(3), row.get(4));
    let age: Option<i32> = row.get(6);
    let pins = match (row.get::<_, bool>(5), age) {
        (true, Some(age)) => {
            format!("; it pins a snapshot {age} transactions old, so that no row dead since then goes")
        }
        (true, None) => "; it pins a snapshot".to_owned(),
        (false, _) => "; it pins no snapshot now, but holds its locks".to_owned(),
    };
    let what = format!(
        "session {pid} ({}, {}) is {} in a transaction for {}{pins}",
        user.unwrap_or("?"),
        program.filter(|name| !name.is_empty()).unwrap_or("unnamed program"),
        state.unwrap_or("hidden"),
        words(seconds)
    );
    Finding::warning(
        what,
        format!(
            "end the transaction where it was begun, or run `SELECT pg_terminate_backend({pid})`; \
                 idle_in_transaction_session_timeout ends those that idle"
        ),
    )
}

pub(super) async fn others_that_pin(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for row in patient.ask(store::PREPARED, &[&patient.long_s()]).await? {
        let (gid, seconds, age): (String, f64, i32) = (row.get(0), row.get(1), row.get(2));
        findings.push(Finding::warning(
            format!("the prepared transaction {gid} waits for its end for {}, {age} transactions ago", words(seconds)),
            format!(
                "ask its transaction manager; else run `COMMIT PREPARED` or `ROLLBACK PREPARED` with '{}'",
                gid.replace('\'', "''")
            ),
        ));
    }
    for row in patient.ask(store::SLOTS, &[&OLD_SNAPSHOT]).await? {
        let (active, age, kept): (bool, Option<i32>, Option<f64>) = (row.get(1), row.get(2), row.get(3));
        findings.extend(slot(row.get(0), active, age, kept.unwrap_or(0.0)));
    }
    for row in patient.ask(store::STANDBYS_THAT_PIN, &[&OLD_SNAPSHOT]).await? {
        let (name, age): (Option<&str>, i32) = (row.get(0), row.get(1));
        findings.push(Finding::warning(
            format!("the standby {} pins a snapshot {age} transactions old", name.unwrap_or("?")),
            "end the long query there, or switch hot_standby_feedback off",
        ));
    }
    Ok(findings)
}

fn slot(name: &str, active: bool, age: Option<i32>, kept_bytes: f64) -> Option<Finding> {
    let old = age.filter(|age| *age > OLD_SNAPSHOT);
    let advice = format!("start its reader again, or run `SELECT pg_drop_replication_slot('{name}')`");
    match (old, active) {
        (Some(age), _) => Some(Finding::warning(
            format!("the replication slot {name} pins a snapshot {age} transactions old"),
            advice,
        )),
        (None, false) if kept_bytes > KEPT_BYTES => {
            let kept = kept_bytes / 1e9;
            Some(Finding::warning(
                format!("nobody reads the replication slot {name}, which keeps {kept:.1} GB of WAL"),
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
    fn a_slot_counts_when_it_pins_or_keeps_much_unread() {
        assert_eq!(slot("s", false, None, 1e6), None);
        assert_eq!(slot("s", true, Some(10), 5e9), None);
        assert!(slot("s", false, None, 5e9).expect("a finding").what.contains("5.0 GB"));
        assert!(slot("s", true, Some(2_000_000), 0.0).expect("a finding").what.contains("2000000"));
    }
}
