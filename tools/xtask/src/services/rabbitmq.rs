//! RabbitMQ for tests: a node with its own epmd.

use std::path::Path;

use onceward_local_brokers::{LocalBroker, RabbitMqPrograms, stop_detached};

use super::{Running, Service, broker};
use crate::error::XtaskError;
use crate::install::{RABBITMQ, Requirement};

pub(super) struct RabbitMqService;

impl Service for RabbitMqService {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn variable(&self) -> &'static str {
        "ONCEWARD_TEST_RABBITMQ_URL"
    }

    fn requirements(&self, _folder: &Path) -> Vec<&'static Requirement> {
        vec![&RABBITMQ]
    }

    fn start(&self, folder: &Path) -> Result<Running, XtaskError> {
        broker::start(&RabbitMqPrograms::find()?, folder)
    }

    fn find(&self, folder: &Path) -> Result<Option<Running>, XtaskError> {
        broker::find(folder)
    }

    fn stop(&self, folder: &Path) -> Result<(), XtaskError> {
        Ok(stop_detached(folder)?)
    }
}
