//! Handles `webhooks.sweep.v1`: deletes old rows, and re-encrypts secrets with the current key, in batches.

use crate::{
    events::SweepTick,
    store,
    vault::{SecretOwner, Vault},
};
use onceward::{DbError, Failure, Handler, NewMessage, Received, Tx, outbox};

/// Rows of each kind per transaction.
const BATCH_SIZE: i32 = 2_000;
/// Batches per tick. Rows that remain wait for the next tick.
const MAX_PARTS: u32 = 10_000;

pub(crate) struct SweepHandler {
    pub keep_days: u32,
    pub vault: Vault,
}

impl Handler for SweepHandler {
    type Event = SweepTick;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, SweepTick>) -> Result<(), Failure> {
        let keep_days = i32::try_from(self.keep_days).unwrap_or(i32::MAX);
        let swept = store::delete_old_rows(tx, keep_days, BATCH_SIZE).await?.max(self.reseal(tx).await?);
        let tick = &received.event;
        if swept < BATCH_SIZE || tick.part >= MAX_PARTS {
            return Ok(());
        }
        let next = SweepTick { part: tick.part + 1, ..tick.clone() };
        let message = NewMessage::from_event(&next, tx.tenant()?)?;
        outbox::send(tx, message.once_per(format!("webhooks.sweep:{}", received.envelope.event_id))).await?;
        Ok(())
    }
}

impl SweepHandler {
    /// Re-encrypts secrets with the current key. Returns how many.
    async fn reseal(&self, tx: &Tx) -> Result<i32, DbError> {
        let outdated = self.vault.outdated_key_ids();
        if outdated.is_empty() {
            return Ok(0);
        }
        let mut resealed = 0;
        for stored in store::lock_secrets_with_keys(tx, &outdated, BATCH_SIZE).await? {
            let owner = SecretOwner { tenant: &stored.tenant, endpoint_id: stored.endpoint_id };
            match self.vault.reseal(owner, &stored.sealed) {
                Ok(sealed) => {
                    store::replace_secret(tx, &stored, &sealed).await?;
                    resealed += 1;
                }
                Err(error) => {
                    tracing::warn!(endpoint_id = %owner.endpoint_id, tenant = %owner.tenant, %error, "could not re-encrypt a secret; it stays under the old key");
                }
            }
        }
        Ok(resealed)
    }
}
