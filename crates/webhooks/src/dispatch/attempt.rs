//! One attempt: send, then write down how it went.

use crate::{
    Settings,
    client::{Answer, Client, Message},
    commands,
    error::WebhookError,
    measure, retry,
    store::{self, Attempt, Claimed},
    vault::{Owner, Vault},
};
use jiff::Timestamp;
use onceward::{Db, Scope};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

const GONE: &str = "it answered 410 Gone: it wants nothing any more";

/// Attempts that are written down at the same time. Hundreds may end at once, and others need connections, too.
const RECORDED_AT_ONCE: usize = 4;

/// Who makes deliveries.
pub(super) struct Courier {
    pub db: Db,
    pub settings: Arc<Settings>,
    client: Client,
    vault: Vault,
    recording: Semaphore,
}

impl Courier {
    pub(super) fn new(db: Db, settings: Arc<Settings>) -> Result<Self, reqwest::Error> {
        let client = Client::new(&settings)?;
        let vault = Vault::new(&settings);
        Ok(Self { db, settings, client, vault, recording: Semaphore::new(RECORDED_AT_ONCE) })
    }

    pub(super) async fn deliver(self: Arc<Self>, claimed: Claimed) {
        let started_at = Timestamp::now();
        let answer = self.send(&claimed).await;
        measure::attempted(&answer);
        tracing::debug!(
            delivery_id = %claimed.delivery_id, endpoint_id = %claimed.endpoint_id, tenant = %claimed.tenant,
            event_type = %claimed.event_type, status = answer.status, error = answer.error, "webhook attempt"
        );
        if let Err(error) = self.record(&claimed, started_at, &answer).await {
            tracing::warn!(
                delivery_id = %claimed.delivery_id, %error,
                "how a webhook attempt went could not be written down; it is sent again with the same id"
            );
        }
    }

    async fn send(&self, claimed: &Claimed) -> Answer {
        let owner = Owner { tenant: &claimed.tenant, endpoint_id: claimed.endpoint_id };
        match self.vault.open_all(owner, &claimed.secrets) {
            Ok(secrets) => {
                let id = claimed.event_id.to_string();
                self.client.send(&claimed.url, &Message { id: &id, body: &claimed.body, secrets: &secrets }).await
            }
            Err(error) => {
                tracing::warn!(endpoint_id = %claimed.endpoint_id, tenant = %claimed.tenant, %error, "a webhook cannot be signed");
                Answer::not_sent(error.to_string())
            }
        }
    }

    async fn record(&self, claimed: &Claimed, started_at: Timestamp, answer: &Answer) -> Result<(), WebhookError> {
        let _turn = self.recording.acquire().await;
        let scope = Scope { tenant: Some(claimed.tenant.clone()), ..Scope::platform("webhooks") };
        let mut tx = self.db.begin(scope).await?;
        let attempt = Attempt { delivery_id: claimed.delivery_id, lease: claimed.lease, started_at, answer };
        if answer.is_success() {
            let ours = store::record_success(&tx, &attempt).await?;
            tx.commit().await?;
            if ours {
                measure::delivered(claimed.recorded_at, Timestamp::now());
            }
            return Ok(());
        }
        let wait = self.next_wait(claimed, answer);
        let disable_after_h = i32::try_from(self.settings.disable_after_h).unwrap_or(i32::MAX);
        let Some(failing) = store::record_failure(&tx, &attempt, wait, disable_after_h).await? else {
            return Ok(());
        };
        let reason = match (answer.is_gone(), failing.too_long) {
            (true, _) => Some(GONE.to_owned()),
            (false, true) => Some(format!("it failed for more than {disable_after_h} hours without a success")),
            (false, false) => None,
        };
        let disabled = match reason {
            Some(reason) => commands::disable(&mut tx, claimed.endpoint_id, reason, failing.since).await?,
            None => false,
        };
        tx.commit().await?;
        if wait.is_none() {
            measure::failed();
        }
        if disabled {
            measure::disabled();
            tracing::warn!(endpoint_id = %claimed.endpoint_id, tenant = %claimed.tenant, "a webhook endpoint was disabled");
        }
        Ok(())
    }

    /// `None`: that was the last attempt.
    fn next_wait(&self, claimed: &Claimed, answer: &Answer) -> Option<Duration> {
        if answer.is_gone() {
            return None;
        }
        let wait = self.settings.retry_schedule.after(claimed.attempts + 1)?;
        let wait = retry::jittered(wait, self.settings.jitter_percent, rand::random());
        let most = Duration::from_secs(self.settings.retry_after_max_s);
        Some(wait.max(answer.retry_after.unwrap_or_default().min(most)))
    }
}
