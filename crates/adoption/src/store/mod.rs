//! All SQL of the adoption that is not in `migrations` or `steps`.

mod catalog;
mod compare;
mod lending;
mod rows;
mod state;

pub(crate) use catalog::*;
pub(crate) use compare::*;
pub(crate) use lending::*;
pub(crate) use rows::*;
pub(crate) use state::*;

/// The name of a legacy table, from names that were checked.
fn table_name(schema: &str, table: &str) -> String {
    format!("\"{schema}\".\"{table}\"")
}
