//! Lending as its users meet it: over HTTP, by messages, on a real database.

mod acceptance;
mod escrow;
mod etl;
mod etl_reconcile;
mod etl_support;
mod loans_accrual;
mod loans_bad_input;
mod loans_create;
mod loans_ledger;
mod loans_tenants;
mod loans_update;
mod payments_backdated;
mod payments_intake;
mod payments_pipeline;
mod payments_return;
mod payments_stripe;
mod payments_support;
mod payments_suspense;
mod payments_tenants;
mod payments_topology;
mod payments_validation;
mod progress;
mod support;
