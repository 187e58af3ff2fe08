//! Declarations and checks. The broker may close the channel in reply to any of them; the next call opens a new one.

use crate::{
    arguments::{ArgumentValue, Arguments, EntityKind},
    connection::AmqpConnection,
    error::{AmqpError, NOT_FOUND, PRECONDITION_FAILED, RESOURCE_LOCKED},
};
use lapin::{
    Channel, ExchangeKind,
    options::{BasicQosOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use onceward_broker::BrokerError;
use onceward_topology::Binding;
use std::sync::Arc;

/// A channel for declarations and checks. It takes the connection's spare channel, and returns it when dropped.
pub(crate) struct AdminChannel {
    connection: Arc<AmqpConnection>,
    channel: Option<Channel>,
}

/// The result of a declaration.
pub(crate) enum Declared {
    /// It was created, or exists with exactly these arguments.
    Matches,
    /// It exists and differs; the text is the broker's.
    Differs(String),
}

/// A queue that exists.
pub(crate) enum ExistingQueue {
    /// Any connection may use it. `waiting` counts the messages that no consumer holds.
    Shared { waiting: u64 },
    /// Only the connection that created it may use it.
    Exclusive,
}

impl AdminChannel {
    pub(crate) fn new(connection: Arc<AmqpConnection>) -> Self {
        Self { connection, channel: None }
    }

    pub(crate) async fn has_exchange(&mut self, name: &str) -> Result<bool, BrokerError> {
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let name = name.to_owned();
        let declared = self.call(async move |channel| {
            channel.exchange_declare(name.into(), ExchangeKind::Topic, options, FieldTable::default()).await
        });
        match declared.await {
            Ok(()) => Ok(true),
            Err(error) if error.has_code(NOT_FOUND) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn find_queue(&mut self, name: &str) -> Result<Option<ExistingQueue>, BrokerError> {
        let name = name.to_owned();
        let declared = self.call(async move |channel| {
            let options = QueueDeclareOptions::default().passive();
            channel.queue_declare(name.into(), options, FieldTable::default()).await
        });
        match declared.await {
            Ok(queue) => Ok(Some(ExistingQueue::Shared { waiting: u64::from(queue.message_count()) })),
            Err(error) if error.has_code(NOT_FOUND) => Ok(None),
            Err(error) if error.has_code(RESOURCE_LOCKED) => Ok(Some(ExistingQueue::Exclusive)),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a round trip to the broker that changes nothing.
    pub(crate) async fn ping(&mut self) -> Result<(), BrokerError> {
        Ok(self.call(async move |channel| channel.basic_qos(0, BasicQosOptions::default()).await).await?)
    }

    /// Checks whether the exchange or queue exists, without creating it.
    pub(crate) async fn has(&mut self, kind: EntityKind, name: &str) -> Result<bool, BrokerError> {
        match kind {
            EntityKind::Exchange => self.has_exchange(name).await,
            EntityKind::Queue => Ok(self.find_queue(name).await?.is_some()),
        }
    }

    /// Creates the exchange or queue if it is missing, and compares its arguments otherwise.
    pub(crate) async fn declare(
        &mut self,
        kind: EntityKind,
        name: &str,
        arguments: &Arguments,
    ) -> Result<Declared, BrokerError> {
        let (name, arguments) = (name.to_owned(), arguments.clone());
        let declared = self.call(async move |channel| match kind {
            EntityKind::Exchange => {
                let kind = match arguments.get("type") {
                    Some(ArgumentValue::Text(kind)) => ExchangeKind::Custom(kind.clone()),
                    _ => ExchangeKind::default(),
                };
                let options = ExchangeDeclareOptions {
                    durable: arguments.has_flag("durable"),
                    auto_delete: arguments.has_flag("auto_delete"),
                    internal: arguments.has_flag("internal"),
                    ..ExchangeDeclareOptions::default()
                };
                channel.exchange_declare(name.into(), kind, options, arguments.table()).await
            }
            EntityKind::Queue => {
                let options = QueueDeclareOptions {
                    durable: arguments.has_flag("durable"),
                    auto_delete: arguments.has_flag("auto_delete"),
                    ..QueueDeclareOptions::default()
                };
                channel.queue_declare(name.into(), options, arguments.table()).await.map(drop)
            }
        });
        match declared.await {
            Ok(()) => Ok(Declared::Matches),
            Err(AmqpError::Closed { code: PRECONDITION_FAILED | RESOURCE_LOCKED, text }) => Ok(Declared::Differs(text)),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a binding; does nothing if it exists. Fails if the exchange or the queue does not exist.
    pub(crate) async fn bind(&mut self, binding: &Binding) -> Result<(), BrokerError> {
        let Binding { exchange, queue, pattern } = binding.clone();
        let bound = self.call(async move |channel| {
            let options = QueueBindOptions::default();
            channel.queue_bind(queue.into(), exchange.into(), pattern.into(), options, FieldTable::default()).await
        });
        match bound.await {
            Err(AmqpError::Closed { code: NOT_FOUND, text }) => Err(BrokerError::Misconfigured(format!(
                "the topology binds an exchange or queue that it does not declare: {text}"
            ))),
            bound => Ok(bound?),
        }
    }

    async fn call<T, F>(&mut self, request: impl FnOnce(Channel) -> F) -> Result<T, AmqpError>
    where
        F: Future<Output = lapin::Result<T>>,
    {
        let spare = || self.connection.spare_channel.lock().take();
        let channel = match self.channel.take().or_else(spare).filter(|channel| channel.status().connected()) {
            Some(channel) => channel,
            None => self.connection.channel().await?,
        };
        let reply = self.connection.call(request(channel.clone())).await?;
        self.channel = Some(channel);
        Ok(reply)
    }
}

impl Drop for AdminChannel {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            *self.connection.spare_channel.lock() = Some(channel);
        }
    }
}
