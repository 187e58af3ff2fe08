//! A broker that only one test uses, so that it may be killed.

use crate::{Bus, blocking, private_kafka, private_rabbitmq, private_redis};
use onceward::broker::BusKind;
use onceward_local_brokers::{LocalBroker, LocalBrokerError, Server};

trait Killable: Send {
    fn url(&self) -> String;
    fn kill(&mut self) -> Result<(), LocalBrokerError>;
    fn restart(&mut self) -> Result<(), LocalBrokerError>;
}

impl<B: LocalBroker + Send> Killable for Server<B> {
    fn url(&self) -> String {
        Server::url(self)
    }

    fn kill(&mut self) -> Result<(), LocalBrokerError> {
        Server::kill(self)
    }

    fn restart(&mut self) -> Result<(), LocalBrokerError> {
        Server::restart(self)
    }
}

/// A broker that may be killed; dropping it stops the server.
pub struct PrivateBroker {
    kind: BusKind,
    server: Option<Box<dyn Killable>>,
}

impl PrivateBroker {
    /// Starts one.
    pub async fn start(kind: BusKind) -> Self {
        let start = move || -> Box<dyn Killable> {
            match kind {
                BusKind::RabbitMq => Box::new(private_rabbitmq()),
                BusKind::Kafka => Box::new(private_kafka()),
                BusKind::Redis => Box::new(private_redis()),
                BusKind::Postgres => panic!("PostgreSQL is not a broker"),
            }
        };
        Self { kind, server: Some(blocking(start).await) }
    }

    /// Returns it as a bus.
    pub fn bus(&self) -> Bus {
        Bus::at(self.kind, self.server.as_ref().map(|server| server.url()))
    }

    /// Sends SIGKILL.
    pub async fn kill(&mut self) {
        self.with(|server| server.kill()).await;
    }

    /// Starts the same server again, with its stored data.
    pub async fn restart(&mut self) {
        self.with(|server| server.restart()).await;
    }

    async fn with(&mut self, work: impl FnOnce(&mut dyn Killable) -> Result<(), LocalBrokerError> + Send + 'static) {
        let mut server = self.server.take().expect("every use puts the server back");
        let used = blocking(move || {
            work(server.as_mut()).expect("the broker can be killed and restarted");
            server
        });
        self.server = Some(used.await);
    }
}
