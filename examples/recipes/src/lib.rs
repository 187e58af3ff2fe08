//! Small services that show one idea each. Every file stands alone and has a test of the same name under `tests/it`.
//!
//! - [`own_transaction`]: publish from a tokio-postgres transaction that your program already has.
//! - [`leased_call`]: call an HTTP API from a handler, and record the result once.
//! - [`nightly_report`]: run work on a schedule, for every tenant.
//! - [`batch_totals`]: handle many messages with one statement.
//! - [`activity_feed`]: consume messages of other teams, whose types this program does not know.
//! - `tests/it/testing_a_service.rs`: test a service of your own, with a handler that fails halfway.

pub mod activity_feed;
pub mod batch_totals;
pub mod leased_call;
pub mod nightly_report;
pub mod own_transaction;
