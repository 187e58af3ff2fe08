//! What goes wrong between us and RabbitMQ, and what it means to a caller.

use lapin::ErrorKind;
use onceward_transport::BrokerError;
use std::fmt;

pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
pub(crate) const RESOURCE_LOCKED: u16 = 405;
pub(crate) const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;

#[derive(Debug)]
pub(crate) enum Trouble {
    /// The broker ended the channel or the connection, and said why.
    Told { code: u16, text: String },
    /// Nobody is at the other end, or nobody who answers.
    Lost(String),
}

impl Trouble {
    pub(crate) fn has_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Told { code, .. } if *code == wanted)
    }

    pub(crate) fn into_broker_error(self) -> BrokerError {
        match self {
            Self::Told { code: ACCESS_REFUSED | NOT_ALLOWED, text } => BrokerError::Misconfigured(format!(
                "RabbitMQ does not allow it: {text}; see `rabbitmqctl set_permissions`"
            )),
            Self::Told { text, .. } | Self::Lost(text) => BrokerError::Unavailable(format!("RabbitMQ: {text}")),
        }
    }

    pub(crate) fn into_connect_error(self, place: &str) -> BrokerError {
        match self {
            Self::Told { code: ACCESS_REFUSED, .. } => BrokerError::Misconfigured(format!(
                "RabbitMQ at {place} refuses the user or the password: correct the URL, or see `rabbitmqctl list_users`"
            )),
            Self::Told { code: NOT_ALLOWED, text } => BrokerError::Misconfigured(format!(
                "RabbitMQ at {place} refuses the virtual host ({text}): the URL's path names it, and / is written %2f"
            )),
            other => BrokerError::Unavailable(format!("cannot connect to RabbitMQ at {place}: {other}")),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told { text, .. } | Self::Lost(text) => f.write_str(text),
        }
    }
}

impl From<lapin::Error> for Trouble {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            ErrorKind::ProtocolError(told) => {
                Self::Told { code: told.get_id(), text: told.get_message().as_str().to_owned() }
            }
            ErrorKind::MissingHeartbeatError => Self::Lost("it has been silent for too long".to_owned()),
            _ => Self::Lost(error.to_string()),
        }
    }
}

impl From<Trouble> for BrokerError {
    fn from(trouble: Trouble) -> Self {
        trouble.into_broker_error()
    }
}
