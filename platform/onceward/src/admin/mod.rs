//! The state of a running installation, for operators' programs such as the command line. Services do not need it.
//!
//! [`backlog`] counts the messages that wait on an external bus; [`relays`] reports the bus that the database is set up for,
//! and the relays that publish to it.

pub mod backlog;
pub mod relays;
