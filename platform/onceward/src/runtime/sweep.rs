//! Removes data that is older than the retention settings allow.

use onceward_db::Db;
use onceward_message_log::{retention, search_index};
use onceward_web::idempotency;
use std::{collections::BTreeMap, time::Duration};
use tokio_util::sync::CancellationToken;

const EXPIRED_KEYS_AT_ONCE: u32 = 10_000;

/// Sweeps every `every` until `stop`. Failures are logged, and the next round tries again.
pub(super) async fn sweep(
    db: Db,
    keep: retention::Retention,
    key_days: BTreeMap<String, u32>,
    every: Duration,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        match retention::set_key_days(&db, &key_days).await {
            Ok(true) => tracing::info!(?key_days, "applied new retention.key_days"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "applying retention.key_days failed; retrying"),
        }
        match retention::sweep(&db, keep).await {
            Ok(swept) => tracing::debug!(?swept, "removed expired data"),
            Err(error) => tracing::warn!(%error, "removing expired data failed; retrying"),
        }
        match search_index::maintain(&db, search_index::SETTLED_S).await {
            Ok(indexed) => tracing::debug!(?indexed, "indexed closed partitions of the log"),
            Err(error) => tracing::warn!(%error, "indexing closed partitions of the log failed; retrying"),
        }
        if let Err(error) = idempotency::forget_expired(&db, EXPIRED_KEYS_AT_ONCE).await {
            tracing::warn!(%error, "removing expired idempotency keys failed; retrying");
        }
        tokio::select! { () = tokio::time::sleep(every) => {}, () = stop.cancelled() => {} }
    }
}
