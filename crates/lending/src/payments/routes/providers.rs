//! A tenant's accounts at its gateways.

use crate::LendingError;
use crate::payments::{problems::PROVIDER_UNKNOWN, provider::STRIPE, store};
use onceward::prelude::*;
use onceward_audit::{self as audit, Entry};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Account {
    webhook_secret: String,
}

/// Only webhooks that are signed need a secret. It is never shown again, and never audited.
pub(super) async fn set(Path(provider): Path<String>, command: Command<Account>) -> Result<Response, Problem> {
    let (account, mut command) = command.into_parts();
    if provider != STRIPE {
        return Err(Problem::new(PROVIDER_UNKNOWN).detail("Only stripe signs its webhooks."));
    }
    store::set_secret(&command.tx, &provider, &account.webhook_secret).await?;
    let entry = Entry::new("payment_provider_secret_set").object("provider", &provider);
    audit::record(&mut command.tx, entry).map_err(LendingError::from)?;
    command.respond(StatusCode::OK, &json!({"provider": provider})).await
}
