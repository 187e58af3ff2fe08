//! The steps, in order. Each is safe while the old program runs, and runs once.

use crate::LegacyMapping;

/// The legacy tables that get a column `tenant_id`.
const TABLES: &[&str] = &["borrower_entities", "loans", "payments"];
/// The tables with amounts, and whether amounts may be negative: old programs reverse a payment by a negative one.
const AMOUNTS: &[(&str, bool)] = &[("loans", false), ("payments", true)];
/// References as (table, column, referenced table).
pub(crate) const REFERENCES: &[(&str, &str, &str)] =
    &[("loans", "borrower_id", "borrower_entities"), ("payments", "loan_id", "loans")];

/// One step of the adoption. Its name is stored when it is done.
pub(crate) struct Step {
    pub name: String,
    pub purpose: &'static str,
    pub action: StepAction,
}

pub(crate) enum StepAction {
    /// Statements that block writers briefly, in one transaction.
    Change(String),
    /// A unique index, created concurrently, and a constraint that uses it.
    UniqueKey { table: &'static str, constraint: String },
    /// Fills `amount_minor` in batches.
    BackfillAmounts { table: &'static str },
    /// Lists rows that refer to a missing row, in batches.
    ListMissingReferences { table: &'static str, column: &'static str, target: &'static str },
    /// Adds a foreign key that includes the tenant, unless a row violates it.
    ForeignKey { table: &'static str, column: &'static str, target: &'static str, constraint: String },
    /// Publishes the messages that wait in the legacy outbox, and from then on new ones.
    PublishOutbox(String),
}

/// Returns all steps for this mapping.
pub(crate) fn steps(mapping: &LegacyMapping) -> Vec<Step> {
    let mut steps = vec![Step {
        name: "borrowers as a view".into(),
        purpose: "rename borrowers to borrower_entities and add a view borrowers with the old columns, which old statements read and write",
        action: StepAction::Change(mapping.render(include_str!("../steps/borrowers_view.sql"), &[])),
    }];
    steps.extend(TABLES.iter().map(|table| Step {
        name: format!("tenant of {table}"),
        purpose: "add tenant_id to every row; no row is rewritten",
        action: StepAction::Change(mapping.render(include_str!("../steps/tenant.sql"), &[("@table", table)])),
    }));
    steps.extend(TABLES.iter().map(|table| Step {
        name: format!("key of {table}"),
        purpose: "add a unique key that starts with the tenant; the index is created concurrently",
        action: StepAction::UniqueKey {
            table,
            constraint: mapping.render(include_str!("../steps/key.sql"), &[("@table", table)]),
        },
    }));
    steps.extend(AMOUNTS.iter().map(|(table, below_zero)| {
        let below_zero = if *below_zero { "true" } else { "false" };
        let values = [("@table", *table), ("@below_zero", below_zero)];
        Step {
            name: format!("minor units of {table}"),
            purpose: "add amount_minor and a trigger that keeps it and amount in step",
            action: StepAction::Change(mapping.render(include_str!("../steps/minor.sql"), &values)),
        }
    }));
    steps.extend(AMOUNTS.iter().map(|(table, _)| Step {
        name: format!("amounts of {table}"),
        purpose: "fill amount_minor of existing rows; amounts without an exact value are listed",
        action: StepAction::BackfillAmounts { table },
    }));
    for (table, column, target) in REFERENCES {
        let values = [("@table", *table), ("@column", *column), ("@target", *target)];
        steps.push(Step {
            name: format!("references of {table}"),
            purpose: "list rows that refer to a missing row",
            action: StepAction::ListMissingReferences { table, column, target },
        });
        steps.push(Step {
            name: format!("tenant reference of {table}"),
            purpose: "add a foreign key that includes the tenant, where the legacy schema has one or with --enforce",
            action: StepAction::ForeignKey {
                table,
                column,
                target,
                constraint: mapping.render(include_str!("../steps/reference.sql"), &values),
            },
        });
    }
    if mapping.exchange.is_some() {
        steps.push(Step {
            name: "outbox".into(),
            purpose: "publish waiting messages once, and new ones with the transaction that writes them; stop the old publisher first",
            action: StepAction::PublishOutbox(mapping.render(include_str!("../steps/outbox.sql"), &[])),
        });
    }
    steps
}
