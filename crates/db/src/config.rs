//! Where the database is and how much of it one process may use.

use crate::DbError;

/// Connection settings. [`DbConfig::new`] gives the documented defaults.
#[derive(Clone, Debug)]
pub struct DbConfig {
    /// A PostgreSQL URL or key/value string. The user in it must own the schemas.
    pub url: String,
    /// Connections this process may hold open at most.
    pub pool_size: usize,
    /// How long a caller waits for a free connection before it is told the database is busy.
    pub acquire_timeout_ms: u64,
    /// How long a new connection may take to be established.
    pub connect_timeout_ms: u64,
    /// The server ends a statement that runs longer than this.
    pub statement_timeout_ms: u64,
    /// The server ends a session that holds a transaction open and idle for longer than this.
    pub idle_in_transaction_timeout_ms: u64,
}

impl DbConfig {
    /// Defaults for `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            pool_size: 16,
            acquire_timeout_ms: 3_000,
            connect_timeout_ms: 5_000,
            statement_timeout_ms: 30_000,
            idle_in_transaction_timeout_ms: 60_000,
        }
    }

    pub(crate) fn driver_config(&self) -> Result<tokio_postgres::Config, DbError> {
        let mut config: tokio_postgres::Config = self.url.parse().map_err(|error| {
            DbError::Config(format!(
                "DATABASE_URL is not a PostgreSQL address ({error}); expected postgres://user:password@host:port/database"
            ))
        })?;
        config.connect_timeout(std::time::Duration::from_millis(self.connect_timeout_ms));
        if config.get_application_name().is_none() {
            config.application_name("onceward");
        }
        Ok(config)
    }
}
