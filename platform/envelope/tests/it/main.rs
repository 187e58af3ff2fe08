//! The envelope, its contracts and its canonical form, as other crates use them.

mod canonical;
mod envelope;
mod schema;
