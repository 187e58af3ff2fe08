//! A connection to RabbitMQ that is opened on first use and reopened after it is lost.

use crate::connection::AmqpConnection;
use onceward_broker::{BrokerConfig, BrokerError};
use std::sync::Arc;
use tokio::{sync::Mutex, time::timeout};

/// The settings of a connection, and the connection once it is open.
pub(crate) struct LazyConnection {
    config: BrokerConfig,
    purpose: &'static str,
    connection: Mutex<Option<Arc<AmqpConnection>>>,
}

impl LazyConnection {
    pub(crate) fn new(config: BrokerConfig, purpose: &'static str) -> Self {
        Self { config, purpose, connection: Mutex::default() }
    }

    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// Returns the connection, and opens it if needed. Concurrent callers wait for one attempt instead of starting others.
    pub(crate) async fn get(&self) -> Result<Arc<AmqpConnection>, BrokerError> {
        let limit = self.config.connect_timeout;
        let mut current = timeout(limit, self.connection.lock())
            .await
            .map_err(|_| BrokerError::Unavailable(format!("connecting to RabbitMQ took longer than {limit:?}")))?;
        if let Some(connection) = current.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(connection.clone());
        }
        *current = None;
        let connection = Arc::new(AmqpConnection::connect(&self.config, self.purpose).await?);
        *current = Some(connection.clone());
        Ok(connection)
    }

    /// Returns the connection if one was opened, whether or not it is still alive.
    pub(crate) fn current(&self) -> Option<Arc<AmqpConnection>> {
        self.connection.try_lock().ok()?.clone()
    }

    pub(crate) async fn close(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection.filter(|connection| connection.is_alive()) {
            connection.close().await;
        }
    }
}
