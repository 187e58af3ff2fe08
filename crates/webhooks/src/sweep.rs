//! `webhooks.sweep.v1`: clears away what is old, and puts secrets that lie under an old key under the one in force, some at a time.

use crate::{
    events::Sweep,
    store,
    vault::{Owner, Vault},
};
use onceward::{DbError, Failure, Handler, NewMessage, Received, Tx, outbox};

/// Rows of each kind in one transaction.
const BATCH: i32 = 2_000;
/// What is left then waits for the next tick.
const PARTS_AT_MOST: u32 = 10_000;

pub(crate) struct OnSweep {
    pub keep_days: u32,
    pub vault: Vault,
}

impl Handler for OnSweep {
    type Event = Sweep;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, Sweep>) -> Result<(), Failure> {
        let keep_days = i32::try_from(self.keep_days).unwrap_or(i32::MAX);
        let swept = store::sweep(tx, keep_days, BATCH).await?.max(self.reseal(tx).await?);
        let tick = &received.event;
        if swept < BATCH || tick.part >= PARTS_AT_MOST {
            return Ok(());
        }
        let next = Sweep { part: tick.part + 1, ..tick.clone() };
        let message = NewMessage::from_event(&next, tx.tenant()?)?;
        outbox::send(tx, message.once_per(format!("webhooks.sweep:{}", received.envelope.event_id))).await?;
        Ok(())
    }
}

impl OnSweep {
    /// Gives how many were put under the key in force.
    async fn reseal(&self, tx: &Tx) -> Result<i32, DbError> {
        let outdated = self.vault.outdated();
        if outdated.is_empty() {
            return Ok(0);
        }
        let mut resealed = 0;
        for kept in store::secrets_under(tx, &outdated, BATCH).await? {
            let owner = Owner { tenant: &kept.tenant, endpoint_id: kept.endpoint_id };
            match self.vault.reseal(owner, &kept.sealed) {
                Ok(sealed) => {
                    store::reseal(tx, &kept, &sealed).await?;
                    resealed += 1;
                }
                Err(error) => {
                    tracing::warn!(endpoint_id = %owner.endpoint_id, tenant = %owner.tenant, %error, "a secret stays under its old key");
                }
            }
        }
        Ok(resealed)
    }
}
