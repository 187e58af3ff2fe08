//! All SQL of the adoption that is not in `migrations` or `steps`.

mod batches;
mod catalog;
mod compare;
mod lending;
mod progress;

pub(crate) use batches::*;
pub(crate) use catalog::*;
pub(crate) use compare::*;
pub(crate) use lending::*;
pub(crate) use progress::*;

/// Returns the quoted name of a legacy table. The names must have been validated.
fn table_name(schema: &str, table: &str) -> String {
    format!("\"{schema}\".\"{table}\"")
}
