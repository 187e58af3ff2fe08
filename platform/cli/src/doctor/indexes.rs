//! Checks that every index that the migrations create exists and is valid.

use super::{CheckContext, DoctorFinding, store};
use onceward_db::Migrations;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Keys that prevent duplicates; they are created with their tables, so no `CREATE INDEX` statement names them.
const KEYS: &[&str] = &[
    "onceward.lane_turn_pkey",
    "onceward.turn_start_pkey",
    "onceward.cancelled_pkey",
    "onceward.deferred_pkey",
    "onceward.dead_letters_pkey",
    "onceward.message_key_pkey",
    "onceward.lasting_key_pkey",
    "onceward.inbox_pkey",
    "onceward.lane_pkey",
    "onceward.lane_queue_id_tenant_id_priority_shard_key",
    "onceward.queue_name_key",
    "onceward.relay_batch_pkey",
    "onceward_web.idempotency_key_pkey",
];

pub(super) async fn check(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let all = context.platform.migrations();
    let schemas: Vec<&str> = all.iter().map(|migrations| migrations.schema).collect();
    let rows = context.query(store::INDEXES, &[&schemas]).await?;
    let found: HashMap<String, bool> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    // An index that belongs to an unapplied migration is not reported here.
    let applied = context.query(store::MIGRATIONS, &[]).await?;
    let applied: HashSet<(&str, &str)> = applied.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut findings = evaluate(&expected(&all, |schema, step| applied.contains(&(schema, step))), &found);
    if !findings.is_empty() {
        return Ok(findings);
    }
    for row in context.query(store::PARTITIONS_WITHOUT_INDEX, &[]).await? {
        let partition: &str = row.get(0);
        findings.push(DoctorFinding::critical(
            format!("onceward.{partition} has no index by lane, so its lanes are read row by row"),
            format!(
                "run `CREATE INDEX CONCURRENTLY {partition}_lane_seq ON onceward.{partition} (lane_id, seq)`, then \
                 `ALTER INDEX onceward.message_log_lane_seq ATTACH PARTITION onceward.{partition}_lane_seq`"
            ),
        ));
    }
    Ok(findings)
}

/// Returns the indexes by name, each with the statement that creates it, of the migrations for which `is_applied` is true.
fn expected(all: &[Migrations], is_applied: impl Fn(&str, &str) -> bool) -> BTreeMap<String, String> {
    let mut indexes = BTreeMap::new();
    let steps = all.iter().flat_map(|migrations| migrations.steps.iter().map(|step| (migrations.schema, step)));
    for (_, step) in steps.filter(|(schema, step)| is_applied(schema, step.name)) {
        for statement in statements(step.sql) {
            let tokens: Vec<&str> = statement.split_whitespace().collect();
            match tokens[..] {
                ["CREATE", "INDEX", name, "ON", table, ..] | ["CREATE", "UNIQUE", "INDEX", name, "ON", table, ..] => {
                    let schema = table.split_once('.').map_or("public", |(schema, _)| schema);
                    indexes.insert(format!("{schema}.{name}"), tokens.join(" "));
                }
                ["DROP", "INDEX", .., name] => drop(indexes.remove(name)),
                _ => {}
            }
        }
    }
    indexes
}

/// Returns the statements of a migration, without comments and without the bodies of functions.
fn statements(sql: &str) -> Vec<String> {
    let without_comments: Vec<&str> = sql.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let outside: Vec<String> =
        without_comments.join("\n").split("$$").step_by(2).map(str::to_owned).collect::<Vec<_>>();
    outside.join(" ").split(';').map(|statement| statement.trim().to_owned()).collect()
}

fn evaluate(expected: &BTreeMap<String, String>, found: &HashMap<String, bool>) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for (name, statement) in expected.iter().filter(|(name, _)| !found.contains_key(*name)) {
        // A partitioned table's index cannot be built concurrently.
        let statement = if statement.contains(" ON onceward.message_log ") {
            statement.clone()
        } else {
            statement.replacen("INDEX ", "INDEX CONCURRENTLY ", 1)
        };
        findings.push(DoctorFinding::critical(format!("the index {name} is missing"), format!("run `{statement}`")));
    }
    for key in KEYS.iter().filter(|key| !found.contains_key(**key)) {
        let advice = "restore the constraint as its migration defines it; without it, work can be done twice";
        findings.push(DoctorFinding::critical(format!("the key {key} is missing"), advice));
    }
    let mut invalid: Vec<&String> = found.iter().filter(|(_, valid)| !**valid).map(|(name, _)| name).collect();
    invalid.sort();
    findings.extend(invalid.into_iter().map(|name| {
        DoctorFinding::critical(
            format!("the index {name} is not valid, so no query uses it"),
            format!("run `REINDEX INDEX CONCURRENTLY {name}`"),
        )
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_db::Migration;

    const STEPS: Migrations = Migrations {
        schema: "a",
        steps: &[
            Migration {
                name: "0001",
                sql: "CREATE TABLE a.t (x int); -- CREATE INDEX no ON a.t (x);\nCREATE INDEX t_x ON a.t\n (x) WHERE x > 0;
                      CREATE UNIQUE INDEX t_old ON a.t (x);",
            },
            Migration {
                name: "0002",
                sql: "CREATE FUNCTION a.f() AS $$ BEGIN EXECUTE ';CREATE INDEX inside ON a.t (x);' END $$; DROP INDEX a.t_old;",
            },
        ],
    };

    #[test]
    fn indexes_are_read_from_the_migrations_and_not_from_functions() {
        let expected = expected(&[STEPS], |_, _| true);
        let only = [("a.t_x".to_owned(), "CREATE INDEX t_x ON a.t (x) WHERE x > 0".to_owned())];
        assert_eq!(expected.into_iter().collect::<Vec<_>>(), only);
    }

    #[test]
    fn missing_and_invalid_indexes_are_reported_with_the_statement_that_repairs_them() {
        let all: HashMap<String, bool> = KEYS.iter().map(|key| ((*key).to_owned(), true)).collect();
        let missing = evaluate(&expected(&[STEPS], |_, _| true), &all);
        assert_eq!(missing[0].advice, "run `CREATE INDEX CONCURRENTLY t_x ON a.t (x) WHERE x > 0`");
        let mut broken = all.clone();
        broken.insert("a.t_x".into(), false);
        broken.remove("onceward.lane_turn_pkey");
        let found: Vec<String> =
            evaluate(&expected(&[STEPS], |_, _| true), &broken).into_iter().map(|finding| finding.what).collect();
        assert!(found[0].contains("lane_turn_pkey is missing") && found[1].contains("a.t_x is not valid"), "{found:?}");
    }
}
