//! Whether tables that are updated are cleaned in time.

use super::{Finding, Patient, store, words};

/// Fewer dead rows than this cost nothing worth a word.
const DEAD_ROWS: i64 = 20_000;
/// Who was cleaned this lately and is still full of dead rows is kept from being cleaned.
const LATELY_S: f64 = 600.0;
/// At two billion PostgreSQL stops taking writes.
const OLD_AGE: i32 = 1_000_000_000;

pub(super) async fn check(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let schemas: Vec<&str> = patient.platform.migrations().iter().map(|migrations| migrations.schema).collect();
    let rows = patient.ask(store::VACUUM, &[&schemas]).await?;
    let mut findings: Vec<Finding> = rows
        .iter()
        .flat_map(|row| {
            let switched_off = row.get::<_, bool>(4).then(|| switched_off(row.get(0)));
            switched_off.into_iter().chain(debt(row.get(0), row.get(1), row.get(2), row.get(3)))
        })
        .collect();
    let age: i32 = patient.ask(store::FREEZE, &[]).await?[0].get(0);
    if age > OLD_AGE {
        findings.push(Finding::critical(
            format!("the oldest transaction in this database is {age} transactions old; at two billion writes stop"),
            "find what keeps autovacuum from freezing (old snapshots, see there), then run `VACUUM (FREEZE)`",
        ));
    }
    Ok(findings)
}

fn switched_off(table: &str) -> Finding {
    let advice = format!("run `ALTER TABLE {table} RESET (autovacuum_enabled)`");
    Finding::warning(format!("autovacuum is switched off for {table}"), advice)
}

fn debt(table: &str, dead: i64, live: i64, cleaned_s: Option<f64>) -> Option<Finding> {
    if dead < DEAD_ROWS || dead < live {
        return None;
    }
    let cleaned = cleaned_s.map_or_else(|| "never cleaned".to_owned(), |s| format!("last cleaned {} ago", words(s)));
    let advice = if cleaned_s.is_some_and(|seconds| seconds < LATELY_S) {
        "cleaning does not help while an old snapshot is pinned: see the findings on sessions and snapshots".to_owned()
    } else {
        format!("run `VACUUM (ANALYZE) {table}`, and look why autovacuum does not come by")
    };
    Some(Finding::warning(format!("{table} has {dead} dead rows beside {live} live ones, {cleaned}"), advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_rows_count_when_they_are_many_and_most() {
        assert_eq!(debt("t", 19_000, 1, None), None);
        assert_eq!(debt("t", 30_000, 40_000, None), None);
        assert!(debt("t", 30_000, 100, None).expect("a debt").advice.contains("VACUUM (ANALYZE) t"));
        assert!(debt("t", 30_000, 100, Some(60.0)).expect("a debt").advice.contains("old snapshot"));
    }
}
