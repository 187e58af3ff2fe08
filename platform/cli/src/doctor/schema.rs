//! Checks that the database has the schema that this program was written for.

use super::{CheckContext, DoctorFinding, store};
use onceward_db::{Migrations, requirements};
use onceward_envelope::fingerprint_hex;
use std::collections::BTreeMap;

const MIGRATE: &str = "run `onceward migrate`";

pub(super) async fn migrations(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    if !context.migrated {
        return Ok(vec![DoctorFinding::critical("this database is empty", MIGRATE)]);
    }
    let rows = context.query(store::MIGRATIONS, &[]).await?;
    let applied: Vec<AppliedMigration> = rows
        .iter()
        .map(|row| AppliedMigration { schema: row.get(0), name: row.get(1), checksum: row.get(2) })
        .collect();
    Ok(evaluate(&context.platform.migrations(), &applied))
}

/// A migration that the database recorded.
struct AppliedMigration {
    schema: String,
    name: String,
    checksum: String,
}

fn evaluate(expected: &[Migrations], applied: &[AppliedMigration]) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for migrations in expected {
        let schema = migrations.schema;
        for step in migrations.steps {
            match applied.iter().find(|known| known.schema == schema && known.name == step.name) {
                None => {
                    findings
                        .push(DoctorFinding::critical(format!("{schema}/{} has not been applied", step.name), MIGRATE));
                }
                Some(known) if known.checksum != fingerprint_hex(step.sql.as_bytes()) => {
                    let what = format!("{schema}/{} was changed after it was applied", step.name);
                    findings.push(DoctorFinding::critical(what, "restore its text and make the change in a new step"));
                }
                Some(_) => {}
            }
        }
        let in_schema = |known: &&AppliedMigration| known.schema == schema;
        let unknown = |known: &&AppliedMigration| !migrations.steps.iter().any(|step| step.name == known.name);
        for known in applied.iter().filter(in_schema).filter(unknown) {
            let what = format!("{schema}/{} is applied, but this program does not know it", known.name);
            findings
                .push(DoctorFinding::warning(what, "a newer release has migrated this database: upgrade this program"));
        }
    }
    findings
}

/// Returns one finding per table, because a missing migration affects many columns.
pub(super) async fn columns(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let missing = requirements::missing(&context.db, &context.platform.required()).await?;
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (table, column) in missing.iter().filter_map(|column| column.rsplit_once('.')) {
        tables.entry(table).or_default().push(column);
    }
    let advice = format!("{MIGRATE}; if it finds nothing to do, the table was altered by hand: restore it");
    let lacks = |(table, columns): (&str, Vec<&str>)| format!("{table} lacks {}", columns.join(", "));
    Ok(tables.into_iter().map(lacks).map(|what| DoctorFinding::critical(what, advice.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_db::Migration;

    const STEPS: Migrations = Migrations {
        schema: "a",
        steps: &[Migration { name: "0001_x", sql: "x" }, Migration { name: "0002_y", sql: "y" }],
    };

    fn applied(name: &str, sql: &str) -> AppliedMigration {
        AppliedMigration { schema: "a".into(), name: name.into(), checksum: fingerprint_hex(sql.as_bytes()) }
    }

    #[test]
    fn missing_changed_and_unknown_steps_are_distinguished() {
        assert_eq!(evaluate(&[STEPS], &[applied("0001_x", "x"), applied("0002_y", "y")]), []);
        let found = evaluate(&[STEPS], &[applied("0001_x", "other"), applied("0003_z", "z")]);
        let problems: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert!(problems[0].contains("0001_x was changed"), "{problems:?}");
        assert!(problems[1].contains("0002_y has not been applied"), "{problems:?}");
        assert!(problems[2].contains("0003_z is applied"), "{problems:?}");
    }
}
