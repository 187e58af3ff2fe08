//! Who may be written to. [`Denial`] decides by the class of the mail, without I/O; `store` loads what it decides by.
//!
//! The check runs twice: when a mail is requested, and again in the transaction that hands it over to a provider.

mod denial;
mod store;

pub(crate) use denial::{Denial, RecipientFacts};
pub(crate) use store::facts_of;
