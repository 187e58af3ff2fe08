//! What lending published about loans, and the variables of mails that come from it.
//!
//! Crm computes no balances: a figure in a mail is a figure that lending published.

mod consumer;
mod store;
mod variables;

pub(crate) use consumer::consumer;
pub(crate) use store::LoanSnapshot;
pub(crate) use variables::{ContactFacts, resolve_email_variables};
