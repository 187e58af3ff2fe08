//! Errors of the bus.

use onceward_broker::BrokerError;
use onceward_db::DbError;

/// An error of the bus or of the database behind it.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The database returned an error or is unreachable.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The queue is not declared on this bus.
    #[error("queue \"{0}\" is not declared; run `onceward migrate`")]
    UnknownQueue(String),
    /// The exchange is not declared on this bus.
    #[error("exchange \"{0}\" is not declared; add it to a service's topology")]
    UnknownExchange(String),
    /// The declaration on the bus differs from the code and cannot be changed in place.
    #[error("{0}")]
    Topology(String),
    /// An error of the external bus.
    #[error(transparent)]
    Bus(#[from] BrokerError),
    /// A stored message cannot be read back.
    #[error("{0}")]
    Malformed(String),
}

impl BusError {
    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Db(error) => error.is_transient(),
            Self::Bus(error) => !matches!(error, BrokerError::Misconfigured(_)),
            _ => false,
        }
    }
}
