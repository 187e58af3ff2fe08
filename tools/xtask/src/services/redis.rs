//! Redis for tests.

use std::path::Path;

use onceward_local_brokers::{LocalBroker, RedisPrograms, stop_detached};

use super::{Running, Service, broker};
use crate::error::XtaskError;
use crate::install::{REDIS, Requirement};

pub(super) struct RedisService;

impl Service for RedisService {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn variable(&self) -> &'static str {
        "ONCEWARD_TEST_REDIS_URL"
    }

    fn requirements(&self, _folder: &Path) -> Vec<&'static Requirement> {
        vec![&REDIS]
    }

    fn start(&self, folder: &Path) -> Result<Running, XtaskError> {
        broker::start(&RedisPrograms::find()?, folder)
    }

    fn find(&self, folder: &Path) -> Result<Option<Running>, XtaskError> {
        broker::find(folder)
    }

    fn stop(&self, folder: &Path) -> Result<(), XtaskError> {
        Ok(stop_detached(folder)?)
    }
}
