//! The way to RabbitMQ: a connection that is made when it is needed, and made anew when it was lost.

use crate::connection::Wire;
use onceward_transport::{BrokerConfig, BrokerError};
use std::sync::Arc;
use tokio::{sync::Mutex, time::timeout};

pub(crate) struct Link {
    config: BrokerConfig,
    purpose: &'static str,
    wire: Mutex<Option<Arc<Wire>>>,
}

impl Link {
    pub(crate) fn new(config: BrokerConfig, purpose: &'static str) -> Self {
        Self { config, purpose, wire: Mutex::default() }
    }

    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// The connection. Whoever comes while one is being made waits for it instead of making another.
    pub(crate) async fn wire(&self) -> Result<Arc<Wire>, BrokerError> {
        let limit = self.config.connect_timeout;
        let mut current = timeout(limit, self.wire.lock())
            .await
            .map_err(|_| BrokerError::Unavailable(format!("connecting to RabbitMQ takes longer than {limit:?}")))?;
        if let Some(wire) = current.as_ref().filter(|wire| wire.is_alive()) {
            return Ok(wire.clone());
        }
        *current = None;
        let wire = Arc::new(Wire::connect(&self.config, self.purpose).await?);
        *current = Some(wire.clone());
        Ok(wire)
    }

    /// The connection if there is one, whatever became of it.
    pub(crate) fn made(&self) -> Option<Arc<Wire>> {
        self.wire.try_lock().ok()?.clone()
    }

    pub(crate) async fn close(&self) {
        let wire = self.wire.lock().await.take();
        if let Some(wire) = wire.filter(|wire| wire.is_alive()) {
            wire.close().await;
        }
    }
}
