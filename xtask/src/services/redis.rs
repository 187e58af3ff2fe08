//! Redis for tests.

use std::path::Path;

use onceward_local_brokers::{Broker, RedisPrograms, stop_detached};

use super::{Running, Service, broker};
use crate::failure::Failure;
use crate::install::{Need, REDIS};

pub(super) struct Redis;

impl Service for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn variable(&self) -> &'static str {
        "ONCEWARD_TEST_REDIS_URL"
    }

    fn needs(&self, _folder: &Path) -> Vec<&'static Need> {
        vec![&REDIS]
    }

    fn start(&self, folder: &Path) -> Result<Running, Failure> {
        broker::start(&RedisPrograms::find()?, folder)
    }

    fn find(&self, folder: &Path) -> Result<Option<Running>, Failure> {
        broker::find(folder)
    }

    fn stop(&self, folder: &Path) -> Result<(), Failure> {
        Ok(stop_detached(folder)?)
    }
}
