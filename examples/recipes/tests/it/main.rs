//! Runs every recipe against a real PostgreSQL.

mod activity_feed;
mod batch_totals;
mod leased_call;
mod nightly_report;
mod own_transaction;
mod testing_a_service;
