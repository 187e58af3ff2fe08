//! Whether the database is the one that this program was written for.

use super::{Finding, Patient, store};
use onceward_db::{Migrations, requirements};
use onceward_envelope::fingerprint_hex;
use std::collections::BTreeMap;

const MIGRATE: &str = "run `onceward migrate`";

pub(super) async fn migrations(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    if !patient.migrated {
        return Ok(vec![Finding::critical("nothing is in this database yet", MIGRATE)]);
    }
    let rows = patient.ask(store::MIGRATIONS, &[]).await?;
    let applied: Vec<Applied> =
        rows.iter().map(|row| Applied { schema: row.get(0), name: row.get(1), checksum: row.get(2) }).collect();
    Ok(judge(&patient.platform.migrations(), &applied))
}

/// A step that the database remembers.
struct Applied {
    schema: String,
    name: String,
    checksum: String,
}

fn judge(wanted: &[Migrations], applied: &[Applied]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for migrations in wanted {
        let schema = migrations.schema;
        for step in migrations.steps {
            match applied.iter().find(|known| known.schema == schema && known.name == step.name) {
                None => {
                    findings.push(Finding::critical(format!("{schema}/{} has not been applied", step.name), MIGRATE));
                }
                Some(known) if known.checksum != fingerprint_hex(step.sql.as_bytes()) => {
                    let what = format!("{schema}/{} was changed after it had been applied", step.name);
                    findings.push(Finding::critical(what, "restore its text and put the change into a new step"));
                }
                Some(_) => {}
            }
        }
        let of_ours = |known: &&Applied| known.schema == schema;
        let unknown = |known: &&Applied| !migrations.steps.iter().any(|step| step.name == known.name);
        for known in applied.iter().filter(of_ours).filter(unknown) {
            let what = format!("{schema}/{} is applied, and this program does not know it", known.name);
            findings.push(Finding::warning(what, "a newer release was here: upgrade this program, too"));
        }
    }
    findings
}

/// One finding a table: a migration that is missing takes many columns with it.
pub(super) async fn columns(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let missing = requirements::missing(&patient.db, &patient.platform.required()).await?;
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (table, column) in missing.iter().filter_map(|column| column.rsplit_once('.')) {
        tables.entry(table).or_default().push(column);
    }
    let advice = format!("{MIGRATE}; if it finds nothing to do, somebody has altered the table: put it back");
    let lacks = |(table, columns): (&str, Vec<&str>)| format!("{table} lacks {}", columns.join(", "));
    Ok(tables.into_iter().map(lacks).map(|what| Finding::critical(what, advice.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_db::Migration;

    const STEPS: Migrations = Migrations {
        schema: "a",
        steps: &[Migration { name: "0001_x", sql: "x" }, Migration { name: "0002_y", sql: "y" }],
    };

    fn applied(name: &str, sql: &str) -> Applied {
        Applied { schema: "a".into(), name: name.into(), checksum: fingerprint_hex(sql.as_bytes()) }
    }

    #[test]
    fn missing_changed_and_unknown_steps_are_told_apart() {
        assert_eq!(judge(&[STEPS], &[applied("0001_x", "x"), applied("0002_y", "y")]), []);
        let found = judge(&[STEPS], &[applied("0001_x", "other"), applied("0003_z", "z")]);
        let words: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert!(words[0].contains("0001_x was changed"), "{words:?}");
        assert!(words[1].contains("0002_y has not been applied"), "{words:?}");
        assert!(words[2].contains("0003_z is applied"), "{words:?}");
    }
}
