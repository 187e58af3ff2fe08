//! What is done, in order. Each step is safe while the old program runs, and is done once.

use crate::Shape;

/// The legacy tables that get a tenant.
const TABLES: &[&str] = &["borrower_entities", "loans", "payments"];
/// Those with amounts, and whether one may be below zero: old programs book a payment back by its opposite.
const AMOUNTS: &[(&str, bool)] = &[("loans", false), ("payments", true)];
/// (table, column, where it points).
pub(crate) const REFERENCES: &[(&str, &str, &str)] =
    &[("loans", "borrower_id", "borrower_entities"), ("payments", "loan_id", "loans")];

/// One step.
pub(crate) struct Step {
    pub name: String,
    pub why: &'static str,
    pub work: Work,
}

pub(crate) enum Work {
    /// Statements that keep writers out for a moment, all or none.
    Change(String),
    /// A unique index, made beside the writers, and then a constraint of it.
    Key { table: &'static str, constraint: String },
    /// Rows in batches: fill `amount_minor`.
    Amounts { table: &'static str },
    /// Rows in batches: list those that refer to nothing.
    Missing { table: &'static str, column: &'static str, target: &'static str },
    /// A foreign key with the tenant, where nothing speaks against it.
    Reference { table: &'static str, column: &'static str, target: &'static str, constraint: String },
    /// Messages that wait in the legacy outbox, and those that will come.
    Outbox(String),
}

/// All of them.
pub(crate) fn steps(shape: &Shape) -> Vec<Step> {
    let mut steps = vec![Step {
        name: "borrowers as a view".into(),
        why: "borrowers becomes borrower_entities, and a view of the old name and columns that old statements read and write",
        work: Work::Change(shape.fill(include_str!("../steps/borrowers_view.sql"), &[])),
    }];
    steps.extend(TABLES.iter().map(|table| Step {
        name: format!("tenant of {table}"),
        why: "every row belongs to a tenant; no row is rewritten",
        work: Work::Change(shape.fill(include_str!("../steps/tenant.sql"), &[("@table", table)])),
    }));
    steps.extend(TABLES.iter().map(|table| Step {
        name: format!("key of {table}"),
        why: "a key that begins with the tenant, made beside the writers",
        work: Work::Key { table, constraint: shape.fill(include_str!("../steps/key.sql"), &[("@table", table)]) },
    }));
    steps.extend(AMOUNTS.iter().map(|(table, below_zero)| {
        let below_zero = if *below_zero { "true" } else { "false" };
        let values = [("@table", *table), ("@below_zero", below_zero)];
        Step {
            name: format!("minor units of {table}"),
            why: "amount_minor beside amount, and a trigger that keeps them in step from now on",
            work: Work::Change(shape.fill(include_str!("../steps/minor.sql"), &values)),
        }
    }));
    steps.extend(AMOUNTS.iter().map(|(table, _)| Step {
        name: format!("amounts of {table}"),
        why: "amount_minor of the rows that were there before; what has no exact form is listed",
        work: Work::Amounts { table },
    }));
    for (table, column, target) in REFERENCES {
        let values = [("@table", *table), ("@column", *column), ("@target", *target)];
        steps.push(Step {
            name: format!("references of {table}"),
            why: "rows that refer to a missing row are listed",
            work: Work::Missing { table, column, target },
        });
        steps.push(Step {
            name: format!("tenant reference of {table}"),
            why: "a foreign key with the tenant in it, where the old program had one, or --enforce asks for it",
            work: Work::Reference {
                table,
                column,
                target,
                constraint: shape.fill(include_str!("../steps/reference.sql"), &values),
            },
        });
    }
    if shape.exchange.is_some() {
        steps.push(Step {
            name: "outbox".into(),
            why: "messages that wait are published once, and new ones with the commit that writes them; stop the old publisher first",
            work: Work::Outbox(shape.fill(include_str!("../steps/outbox.sql"), &[])),
        });
    }
    steps
}
