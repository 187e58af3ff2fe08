//! Checks that tables with updates are vacuumed in time.

use super::{CheckContext, DoctorFinding, humanize, store};

/// Fewer dead rows than this cost too little to report.
const DEAD_ROWS: i64 = 20_000;
/// If a table was vacuumed this recently and is still full of dead rows, something prevents their removal.
const RECENTLY_S: f64 = 600.0;
/// PostgreSQL stops accepting writes at two billion.
const OLD_AGE: i32 = 1_000_000_000;

pub(super) async fn check(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let schemas: Vec<&str> = context.platform.migrations().iter().map(|migrations| migrations.schema).collect();
    let rows = context.query(store::VACUUM, &[&schemas]).await?;
    let mut findings: Vec<DoctorFinding> = rows
        .iter()
        .flat_map(|row| {
            let switched_off = row.get::<_, bool>(4).then(|| autovacuum_off(row.get(0)));
            switched_off.into_iter().chain(dead_rows(row.get(0), row.get(1), row.get(2), row.get(3)))
        })
        .collect();
    let age: i32 = context.query(store::FREEZE, &[]).await?[0].get(0);
    if age > OLD_AGE {
        findings.push(DoctorFinding::critical(
            format!("the oldest transaction in this database is {age} transactions old; at two billion, writes stop"),
            "find what prevents autovacuum from freezing (see the findings on snapshots), then run `VACUUM (FREEZE)`",
        ));
    }
    Ok(findings)
}

fn autovacuum_off(table: &str) -> DoctorFinding {
    let advice = format!("run `ALTER TABLE {table} RESET (autovacuum_enabled)`");
    DoctorFinding::warning(format!("autovacuum is turned off for {table}"), advice)
}

fn dead_rows(table: &str, dead: i64, live: i64, vacuumed_s: Option<f64>) -> Option<DoctorFinding> {
    if dead < DEAD_ROWS || dead < live {
        return None;
    }
    let vacuumed =
        vacuumed_s.map_or_else(|| "never vacuumed".to_owned(), |s| format!("last vacuumed {} ago", humanize(s)));
    let advice = if vacuumed_s.is_some_and(|seconds| seconds < RECENTLY_S) {
        "vacuuming does not help while an old snapshot is pinned: see the findings on sessions and snapshots".to_owned()
    } else {
        format!("run `VACUUM (ANALYZE) {table}`, and find out why autovacuum does not run")
    };
    Some(DoctorFinding::warning(format!("{table} has {dead} dead and {live} live rows, {vacuumed}"), advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_rows_are_reported_when_they_are_many_and_the_majority() {
        assert_eq!(dead_rows("t", 19_000, 1, None), None);
        assert_eq!(dead_rows("t", 30_000, 40_000, None), None);
        assert!(dead_rows("t", 30_000, 100, None).expect("a finding").advice.contains("VACUUM (ANALYZE) t"));
        assert!(dead_rows("t", 30_000, 100, Some(60.0)).expect("a finding").advice.contains("old snapshot"));
    }
}
