//! What an operator should know about this server.

use crate::{connection::Wire, link::Link};
use lapin::{
    BasicProperties,
    options::{BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions},
};
use onceward_transport::{BrokerError, without_credentials};
use std::net::IpAddr;
use uuid::Uuid;

/// The user that every fresh installation has, with a password that everybody knows.
const EVERYBODY: &str = "guest";

pub(crate) async fn advise(link: &Link) -> Result<Vec<String>, BrokerError> {
    let url = link.config().address.read()?;
    let place = without_credentials(&url);
    let mut advice = Vec::new();
    if place.starts_with("amqp://") && !is_this_machine(&place) {
        advice.push(format!("messages and the password travel unencrypted to {place}: use amqps://"));
    }
    // Of its own, because the broker may hold it back, and then nothing else gets through on it either.
    let wire = Wire::connect(link.config(), "asking").await?;
    if wire.user() == EVERYBODY {
        advice
            .push("the user is guest, whose password everybody knows: make one with `rabbitmqctl add_user`".to_owned());
    }
    if !takes_messages(&wire).await {
        advice.push(
            "RabbitMQ takes no messages, because it is short of memory or disk space: see `rabbitmq-diagnostics alarms`"
                .to_owned(),
        );
    }
    wire.close().await;
    Ok(advice)
}

/// Publishes a message that no queue gets. The first is taken in any case, and the broker's word that there must be
/// no second comes with its answer or right behind it.
async fn takes_messages(wire: &Wire) -> bool {
    let Ok(channel) = wire.channel().await else {
        return false;
    };
    let nowhere = format!("onceward.nowhere.{}", Uuid::new_v4());
    let asking = async {
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let options = BasicPublishOptions::default();
        channel.basic_publish("".into(), nowhere.into(), options, &[], BasicProperties::default()).await?.await?;
        channel.basic_qos(0, BasicQosOptions::default()).await
    };
    wire.ask(asking).await.is_ok() && !wire.is_held_back()
}

fn is_this_machine(place: &str) -> bool {
    let authority = place.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
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
    fn this_machine_has_many_names() {
        for ours in ["amqp://localhost:5672/%2f", "amqp://127.0.0.1", "amqp://[::1]:5672/v", "amqp://"] {
            assert!(is_this_machine(ours), "{ours}");
        }
        for other in ["amqp://rabbit:5672/%2f", "amqp://10.0.0.1", "amqp://[fe80::1]"] {
            assert!(!is_this_machine(other), "{other}");
        }
    }
}
