//! PostgreSQL for tests: on a private socket, and without durability, because its data is temporary.

use std::path::Path;

use onceward_local_postgres::{Cluster, ClusterOptions, DetachedCluster, Programs, ShutdownMode};

use super::{Running, Service};
use crate::error::XtaskError;
use crate::install::{POSTGRES, Requirement};

/// The database that the URL names; tests create their own from there.
const DATABASE: &str = "postgres";

/// No setting changes what a client can see: commits still wait for each other, but not for the disk.
const SETTINGS: &[(&str, &str)] = &[("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "on")];

pub(super) struct PostgresService;

impl Service for PostgresService {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn variable(&self) -> &'static str {
        "ONCEWARD_TEST_DATABASE_URL"
    }

    fn requirements(&self, _folder: &Path) -> Vec<&'static Requirement> {
        vec![&POSTGRES]
    }

    fn start(&self, folder: &Path) -> Result<Running, XtaskError> {
        let settings = SETTINGS.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let cluster = Cluster::start(&Programs::find()?, folder, ClusterOptions { settings, port: None })?;
        let detached = cluster.detach().map(|server| running(&server));
        detached.ok_or_else(|| XtaskError::Failed("PostgreSQL ended right after its start".to_owned()))
    }

    fn find(&self, folder: &Path) -> Result<Option<Running>, XtaskError> {
        Ok(find(folder)?.map(|server| running(&server)))
    }

    fn stop(&self, folder: &Path) -> Result<(), XtaskError> {
        match find(folder)? {
            Some(server) => Ok(server.stop(ShutdownMode::Fast)?),
            None => Ok(()),
        }
    }
}

/// Returns the running server, if any. Without the programs, the server cannot be running.
fn find(folder: &Path) -> Result<Option<DetachedCluster>, XtaskError> {
    match Programs::find() {
        Ok(programs) => Ok(DetachedCluster::find(&programs, folder)?),
        Err(_) => Ok(None),
    }
}

fn running(server: &DetachedCluster) -> Running {
    Running { pid: server.pid(), url: server.url(DATABASE) }
}
