//! RabbitMQ for tests: a node with an epmd of its own.

use std::path::Path;

use onceward_local_brokers::{Broker, RabbitMqPrograms, stop_detached};

use super::{Running, Service, broker};
use crate::failure::Failure;
use crate::install::{Need, RABBITMQ};

pub(super) struct RabbitMq;

impl Service for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn variable(&self) -> &'static str {
        "ONCEWARD_TEST_RABBITMQ_URL"
    }

    fn needs(&self, _folder: &Path) -> Vec<&'static Need> {
        vec![&RABBITMQ]
    }

    fn start(&self, folder: &Path) -> Result<Running, Failure> {
        broker::start(&RabbitMqPrograms::find()?, folder)
    }

    fn find(&self, folder: &Path) -> Result<Option<Running>, Failure> {
        broker::find(folder)
    }

    fn stop(&self, folder: &Path) -> Result<(), Failure> {
        Ok(stop_detached(folder)?)
    }
}
