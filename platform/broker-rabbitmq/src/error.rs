//! AMQP errors, and the broker error that each one means to a caller.

use lapin::ErrorKind;
use onceward_broker::BrokerError;
use std::fmt;

pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
pub(crate) const RESOURCE_LOCKED: u16 = 405;
pub(crate) const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;

/// Why a call to RabbitMQ failed.
#[derive(Debug)]
pub(crate) enum AmqpError {
    /// The broker closed the channel or the connection, with this reply code and text.
    Closed { code: u16, text: String },
    /// The connection failed, or the broker did not reply.
    Lost(String),
}

impl AmqpError {
    pub(crate) fn has_code(&self, wanted: u16) -> bool {
        matches!(self, Self::Closed { code, .. } if *code == wanted)
    }

    pub(crate) fn into_broker_error(self) -> BrokerError {
        match self {
            Self::Closed { code: ACCESS_REFUSED | NOT_ALLOWED, text } => BrokerError::Misconfigured(format!(
                "RabbitMQ denied access: {text}; grant the permission with `rabbitmqctl set_permissions`"
            )),
            Self::Closed { text, .. } | Self::Lost(text) => BrokerError::Unavailable(format!("RabbitMQ: {text}")),
        }
    }

    pub(crate) fn into_connect_error(self, address: &str) -> BrokerError {
        match self {
            Self::Closed { code: ACCESS_REFUSED, .. } => BrokerError::Misconfigured(format!(
                "RabbitMQ at {address} rejected the user name or password: correct the URL, or see `rabbitmqctl list_users`"
            )),
            Self::Closed { code: NOT_ALLOWED, text } => BrokerError::Misconfigured(format!(
                "RabbitMQ at {address} rejected the virtual host ({text}): it is the path of the URL, and / is written %2f"
            )),
            other => BrokerError::Unavailable(format!("cannot connect to RabbitMQ at {address}: {other}")),
        }
    }
}

impl fmt::Display for AmqpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { text, .. } | Self::Lost(text) => f.write_str(text),
        }
    }
}

impl From<lapin::Error> for AmqpError {
    fn from(error: lapin::Error) -> Self {
        match error.kind() {
            ErrorKind::ProtocolError(closed) => {
                Self::Closed { code: closed.get_id(), text: closed.get_message().as_str().to_owned() }
            }
            ErrorKind::MissingHeartbeatError => Self::Lost("no heartbeat arrived in time".to_owned()),
            _ => Self::Lost(error.to_string()),
        }
    }
}

impl From<AmqpError> for BrokerError {
    fn from(error: AmqpError) -> Self {
        error.into_broker_error()
    }
}
