//! A broker that only one test uses, so that it may be killed.

use crate::{Bus, blocking, private_kafka, private_rabbitmq, private_redis};
use onceward::transport::BusKind;
use onceward_local_brokers::{Broker, Error, Server};

trait Killable: Send {
    fn url(&self) -> String;
    fn kill(&mut self) -> Result<(), Error>;
    fn restart(&mut self) -> Result<(), Error>;
}

impl<B: Broker + Send> Killable for Server<B> {
    fn url(&self) -> String {
        Server::url(self)
    }

    fn kill(&mut self) -> Result<(), Error> {
        Server::kill(self)
    }

    fn restart(&mut self) -> Result<(), Error> {
        Server::restart(self)
    }
}

/// A broker that may be killed; it ends with this value.
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
                BusKind::Postgres => panic!("PostgreSQL is no broker"),
            }
        };
        Self { kind, server: Some(blocking(start).await) }
    }

    /// It as a bus.
    pub fn bus(&self) -> Bus {
        Bus::at(self.kind, self.server.as_ref().map(|server| server.url()))
    }

    /// SIGKILL.
    pub async fn kill(&mut self) {
        self.with(|server| server.kill()).await;
    }

    /// The same server again, with what it kept.
    pub async fn restart(&mut self) {
        self.with(|server| server.restart()).await;
    }

    async fn with(&mut self, work: impl FnOnce(&mut dyn Killable) -> Result<(), Error> + Send + 'static) {
        let mut server = self.server.take().expect("the server comes back from every use");
        let used = blocking(move || {
            work(server.as_mut()).expect("the broker does as it is told");
            server
        });
        self.server = Some(used.await);
    }
}
