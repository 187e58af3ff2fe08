//! The pool of application connections.

use crate::{APP_ROLE, Connection, DbConfig, DbError, Scope, Tx, listen::Listener, tls};
use deadpool::managed::QueueMode;
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, Timeouts};
use std::{any::Any, sync::Arc, time::Duration};
use tokio_postgres::config::{Host, SslMode};

/// A handle to the database, cheap to clone.
#[derive(Clone)]
pub struct Db {
    pool: Pool,
    config: Arc<DbConfig>,
    context: Option<Arc<dyn Any + Send + Sync>>,
}

/// Pool usage, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    /// The maximum number of connections the pool may hold.
    pub max_size: usize,
    /// Connections currently open.
    pub size: usize,
    /// Open connections that are not in use.
    pub idle: usize,
    /// Callers waiting for a connection.
    pub waiting: usize,
}

impl Db {
    /// Sets up the pool. It opens no connection yet, so that a process can start before its database.
    pub fn connect(config: DbConfig) -> Result<Self, DbError> {
        let driver = config.driver_config()?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = if wants_tls(&driver) {
            Manager::from_config(driver, tls::connector()?, recycling)
        } else {
            Manager::from_config(driver, tokio_postgres::NoTls, recycling)
        };
        let session: Arc<str> = format!(
            "SET ROLE {APP_ROLE}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; SET jit = off; SET TimeZone = 'UTC'",
            config.statement_timeout_ms, config.idle_in_transaction_timeout_ms
        )
        .into();
        let pool = Pool::builder(manager)
            .max_size(config.pool_size)
            // The most recently used connection has its plans cached, and its server process is still in the caches.
            .queue_mode(QueueMode::Lifo)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(Duration::from_millis(config.acquire_timeout_ms)),
                create: Some(Duration::from_millis(config.connect_timeout_ms)),
                recycle: Some(Duration::from_millis(config.connect_timeout_ms)),
            })
            .post_create(Hook::async_fn(move |client, _| {
                let session = session.clone();
                Box::pin(async move { client.batch_execute(&session).await.map_err(HookError::Backend) })
            }))
            .build()
            .map_err(|error| DbError::Config(error.to_string()))?;
        Ok(Self { pool, config: Arc::new(config), context: None })
    }

    /// Returns the same database with `context` attached to its transactions, for the layers above.
    pub fn with_context(mut self, context: Arc<dyn Any + Send + Sync>) -> Self {
        self.context = Some(context);
        self
    }

    /// Opens a transaction for `scope`. Nothing is sent until its first statement.
    pub async fn begin(&self, scope: Scope) -> Result<Tx, DbError> {
        Ok(Tx::new(self.acquire().await?, scope, self.context.clone()))
    }

    /// Returns a connection for engine work outside any tenant. Row-level security still applies, so it reaches other
    /// tenants' rows only through the `onceward.*` functions written for that purpose.
    pub async fn connection(&self) -> Result<Connection, DbError> {
        Ok(Connection::new(self.acquire().await?))
    }

    /// Starts a listener on its own connection, which reconnects automatically until this handle is closed.
    pub fn listen(&self, channel: &'static str) -> Listener {
        Listener::start(self.config.clone(), self.pool.clone(), channel)
    }

    /// The settings this handle was created with.
    pub fn config(&self) -> &DbConfig {
        &self.config
    }

    /// Returns the pool's usage, for metrics.
    pub fn status(&self) -> PoolStatus {
        let status = self.pool.status();
        PoolStatus { max_size: status.max_size, size: status.size, idle: status.available, waiting: status.waiting }
    }

    /// Closes all idle connections and refuses new ones. Listeners end when they next lose their connection.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Returns whether [`Db::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.pool.is_closed()
    }

    async fn acquire(&self) -> Result<deadpool_postgres::Object, DbError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
                DbError::Busy { pool_size: self.config.pool_size, waited_ms: self.config.acquire_timeout_ms }
            }
            PoolError::Backend(error) => connecting(error),
            PoolError::PostCreateHook(HookError::Backend(error)) => connecting(error),
            other => DbError::Unavailable(other.to_string()),
        })
    }
}

/// Treats a failure to connect as an outage, unless the server reports that the settings are wrong.
fn connecting(error: tokio_postgres::Error) -> DbError {
    use tokio_postgres::error::SqlState;
    match error.code() {
        Some(state)
            if [
                SqlState::INVALID_PASSWORD,
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                SqlState::INVALID_CATALOG_NAME,
            ]
            .contains(state) =>
        {
            DbError::Config(DbError::Statement(error.into()).to_string())
        }
        Some(state) if *state == SqlState::UNDEFINED_OBJECT || *state == SqlState::INVALID_PARAMETER_VALUE => {
            DbError::Migration(format!(
                "the role {APP_ROLE} does not exist in this database yet; run `onceward migrate` first"
            ))
        }
        _ => match DbError::from(error) {
            error if error.is_unavailable() => error,
            other => DbError::Unavailable(other.to_string()),
        },
    }
}

pub(crate) fn wants_tls(config: &tokio_postgres::Config) -> bool {
    let over_tcp = config.get_hosts().iter().any(|host| matches!(host, Host::Tcp(_)));
    over_tcp && config.get_ssl_mode() == SslMode::Require
}
