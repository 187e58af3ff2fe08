//! Advice for the operator about this server.

use crate::connection::{AmqpConnection, LazyConnection};
use lapin::{
    BasicProperties,
    options::{BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions},
};
use onceward_broker::{BrokerError, without_credentials};
use std::net::IpAddr;
use uuid::Uuid;

/// The user of every fresh installation, whose default password is public.
const DEFAULT_USER: &str = "guest";

pub(crate) async fn advise(connection: &LazyConnection) -> Result<Vec<String>, BrokerError> {
    let url = connection.config().address.read()?;
    let address = without_credentials(&url);
    let mut advice = Vec::new();
    if address.starts_with("amqp://") && !is_local(&address) {
        advice.push(format!("messages and the password are sent unencrypted to {address}: use amqps://"));
    }
    // A separate connection, because the broker may block it, and then no other call on it is answered.
    let connection = AmqpConnection::connect(connection.config(), "diagnostics").await?;
    if connection.user() == DEFAULT_USER {
        advice.push(
            "the user is guest, whose default password is public: create another one with `rabbitmqctl add_user`"
                .to_owned(),
        );
    }
    if !accepts_messages(&connection).await {
        advice.push(
            "RabbitMQ accepts no messages because it is short of memory or disk space: see `rabbitmq-diagnostics alarms`"
                .to_owned(),
        );
    }
    connection.close().await;
    Ok(advice)
}

/// Publishes a message that no queue receives. The broker accepts the first one in any case; if it blocks publishers, it
/// reports that with the confirmation or right after it.
async fn accepts_messages(connection: &AmqpConnection) -> bool {
    let Ok(channel) = connection.channel().await else {
        return false;
    };
    let nowhere = format!("onceward.nowhere.{}", Uuid::new_v4());
    let publishing = async {
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let options = BasicPublishOptions::default();
        channel.basic_publish("".into(), nowhere.into(), options, &[], BasicProperties::default()).await?.await?;
        channel.basic_qos(0, BasicQosOptions::default()).await
    };
    connection.call(publishing).await.is_ok() && !connection.is_blocked()
}

fn is_local(address: &str) -> bool {
    let authority = address.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.is_empty() || host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_local() {
        for local in ["amqp://localhost:5672/%2f", "amqp://127.0.0.1", "amqp://[::1]:5672/v", "amqp://"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["amqp://rabbit:5672/%2f", "amqp://10.0.0.1", "amqp://[fe80::1]"] {
            assert!(!is_local(other), "{other}");
        }
    }
}
