//! Where the database is and how much of it one process may use.

use crate::DbError;

/// Connection settings. [`DbConfig::new`] fills in the documented defaults.
#[derive(Clone, Debug)]
pub struct DbConfig {
    /// A PostgreSQL URL or key/value string. The user in it must own the schemas.
    pub url: String,
    /// The maximum number of connections this process may hold open.
    pub pool_size: usize,
    /// How long a caller waits for a free connection before it fails with [`DbError::Busy`].
    pub acquire_timeout_ms: u64,
    /// How long a new connection may take to be established.
    pub connect_timeout_ms: u64,
    /// The server ends a statement that runs longer than this.
    pub statement_timeout_ms: u64,
    /// The server ends a session that holds a transaction open and idle for longer than this.
    pub idle_in_transaction_timeout_ms: u64,
}

impl DbConfig {
    /// Creates the default settings for `url`.
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

    /// Returns the URL of another database on the server of `url`. The database name is the last part of the path.
    pub fn sibling_url(url: &str, database: &str) -> String {
        let (address, parameters) = url.split_once('?').map_or((url, String::new()), |(a, p)| (a, format!("?{p}")));
        let start = address.find("://").map_or(0, |scheme| scheme + 3);
        let end = address[start..].find('/').map_or(address.len(), |slash| start + slash);
        format!("{}/{database}{parameters}", &address[..end])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sibling_keeps_everything_but_the_name() {
        let socket = DbConfig::sibling_url("postgres://me@%2Ftmp%2Fs:5432/postgres", "other");
        assert_eq!(socket, "postgres://me@%2Ftmp%2Fs:5432/other");
        let parameters = DbConfig::sibling_url("postgres://me:pw@host/db?sslmode=require", "other");
        assert_eq!(parameters, "postgres://me:pw@host/other?sslmode=require");
        assert_eq!(DbConfig::sibling_url("postgres://host", "other"), "postgres://host/other");
    }
}
