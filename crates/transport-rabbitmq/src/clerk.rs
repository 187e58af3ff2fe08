//! Questions to which the broker may answer by ending the channel. The clerk then takes a new one.

use crate::{
    connection::Wire,
    locked,
    shape::{Argument, Shape, Thing},
    trouble::{NOT_FOUND, PRECONDITION_FAILED, RESOURCE_LOCKED, Trouble},
};
use lapin::{
    Channel, ExchangeKind,
    options::{BasicQosOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use onceward_topology::Binding;
use onceward_transport::BrokerError;
use std::sync::Arc;

pub(crate) struct Clerk {
    wire: Arc<Wire>,
    channel: Option<Channel>,
}

/// What became of a declaration.
pub(crate) enum Declared {
    /// It is there, exactly so.
    Done,
    /// It is there and differs; in the broker's words.
    Differs(String),
}

/// A queue that is there.
pub(crate) enum Known {
    /// With so many messages that nobody has in hand.
    Queue { waiting: u64 },
    /// Only the connection that made it may use it.
    Locked,
}

impl Clerk {
    pub(crate) fn new(wire: Arc<Wire>) -> Self {
        Self { wire, channel: None }
    }

    pub(crate) async fn has_exchange(&mut self, name: &str) -> Result<bool, BrokerError> {
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let name = name.to_owned();
        let asked = self.ask(async move |channel| {
            channel.exchange_declare(name.into(), ExchangeKind::Topic, options, FieldTable::default()).await
        });
        match asked.await {
            Ok(()) => Ok(true),
            Err(trouble) if trouble.has_code(NOT_FOUND) => Ok(false),
            Err(trouble) => Err(trouble.into()),
        }
    }

    pub(crate) async fn find_queue(&mut self, name: &str) -> Result<Option<Known>, BrokerError> {
        let name = name.to_owned();
        let asked = self.ask(async move |channel| {
            let options = QueueDeclareOptions::default().passive();
            channel.queue_declare(name.into(), options, FieldTable::default()).await
        });
        match asked.await {
            Ok(queue) => Ok(Some(Known::Queue { waiting: u64::from(queue.message_count()) })),
            Err(trouble) if trouble.has_code(NOT_FOUND) => Ok(None),
            Err(trouble) if trouble.has_code(RESOURCE_LOCKED) => Ok(Some(Known::Locked)),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Any question will do, so this is one that changes nothing.
    pub(crate) async fn ping(&mut self) -> Result<(), BrokerError> {
        let asked = self.ask(async move |channel| channel.basic_qos(0, BasicQosOptions::default()).await);
        Ok(asked.await?)
    }

    /// Whether there is such a thing, and nothing is made if there is not.
    pub(crate) async fn has(&mut self, thing: Thing, name: &str) -> Result<bool, BrokerError> {
        match thing {
            Thing::Exchange => self.has_exchange(name).await,
            Thing::Queue => Ok(self.find_queue(name).await?.is_some()),
        }
    }

    /// Makes it if it is missing, and compares it otherwise.
    pub(crate) async fn declare(&mut self, thing: Thing, name: &str, shape: &Shape) -> Result<Declared, BrokerError> {
        let (name, shape) = (name.to_owned(), shape.clone());
        let asked = self.ask(async move |channel| match thing {
            Thing::Exchange => {
                let kind = match shape.get("type") {
                    Some(Argument::Text(kind)) => ExchangeKind::Custom(kind.clone()),
                    _ => ExchangeKind::default(),
                };
                let options = ExchangeDeclareOptions {
                    durable: shape.has_flag("durable"),
                    auto_delete: shape.has_flag("auto_delete"),
                    internal: shape.has_flag("internal"),
                    ..ExchangeDeclareOptions::default()
                };
                channel.exchange_declare(name.into(), kind, options, shape.table()).await
            }
            Thing::Queue => {
                let options = QueueDeclareOptions {
                    durable: shape.has_flag("durable"),
                    auto_delete: shape.has_flag("auto_delete"),
                    ..QueueDeclareOptions::default()
                };
                channel.queue_declare(name.into(), options, shape.table()).await.map(drop)
            }
        });
        match asked.await {
            Ok(()) => Ok(Declared::Done),
            Err(Trouble::Told { code: PRECONDITION_FAILED | RESOURCE_LOCKED, text }) => Ok(Declared::Differs(text)),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Binds, which changes nothing if it was bound before.
    pub(crate) async fn bind(&mut self, binding: &Binding) -> Result<(), BrokerError> {
        let Binding { exchange, queue, pattern } = binding.clone();
        let asked = self.ask(async move |channel| {
            let options = QueueBindOptions::default();
            channel.queue_bind(queue.into(), exchange.into(), pattern.into(), options, FieldTable::default()).await
        });
        match asked.await {
            Err(Trouble::Told { code: NOT_FOUND, text }) => {
                Err(BrokerError::Misconfigured(format!("the topology binds what it does not declare: {text}")))
            }
            bound => Ok(bound?),
        }
    }

    async fn ask<T, F>(&mut self, question: impl FnOnce(Channel) -> F) -> Result<T, Trouble>
    where
        F: Future<Output = lapin::Result<T>>,
    {
        let spare = || locked(&self.wire.spare).take();
        let channel = match self.channel.take().or_else(spare).filter(|channel| channel.status().connected()) {
            Some(channel) => channel,
            None => self.wire.channel().await?,
        };
        let answer = self.wire.ask(question(channel.clone())).await?;
        self.channel = Some(channel);
        Ok(answer)
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            *locked(&self.wire.spare) = Some(channel);
        }
    }
}
