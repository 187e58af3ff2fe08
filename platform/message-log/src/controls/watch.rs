//! Keeps the readers of a process up to date with what operators set.

use super::ControlSnapshot;
use crate::wake_hub::WakeHub;
use onceward_supervisor::TaskError;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// How often the controls are loaded without a notification. Operators are promised that a pause takes effect within a
/// second on every worker, also if the notification is lost.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// Loads the controls when they change and at every interval, until `hub` is dropped.
pub(crate) async fn run(hub: Weak<WakeHub>) -> Result<(), TaskError> {
    loop {
        let Some(strong) = hub.upgrade() else {
            return Ok(());
        };
        let _ = tokio::time::timeout(INTERVAL, strong.controls_changed()).await;
        reload(&strong).await;
    }
}

async fn reload(hub: &Arc<WakeHub>) {
    match ControlSnapshot::load(hub.db()).await {
        Ok(snapshot) => hub.set_controls(snapshot),
        Err(error) => tracing::debug!(%error, "loading pauses and rate limits failed; those known stay in force"),
    }
}
