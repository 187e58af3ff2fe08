//! PostgreSQL for tests: on a private socket, and without durability, because its data is thrown away.

use std::path::Path;

use onceward_local_postgres::{Cluster, ClusterOptions, Detached, Programs, Shutdown};

use super::{Running, Service};
use crate::failure::Failure;
use crate::install::{Need, POSTGRES};

/// The database that the URL names; tests make their own from there.
const DATABASE: &str = "postgres";

/// Nothing here changes what a client can see: commits still wait for each other, only the disk is not waited for.
const SETTINGS: &[(&str, &str)] = &[("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "on")];

pub(super) struct Postgres;

impl Service for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn variable(&self) -> &'static str {
        "ONCEWARD_TEST_DATABASE_URL"
    }

    fn needs(&self, _folder: &Path) -> Vec<&'static Need> {
        vec![&POSTGRES]
    }

    fn start(&self, folder: &Path) -> Result<Running, Failure> {
        let settings = SETTINGS.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let cluster = Cluster::start(&Programs::find()?, folder, ClusterOptions { settings, port: None })?;
        let detached = cluster.detach().map(|server| running(&server));
        detached.ok_or_else(|| Failure::Failed("PostgreSQL ended right after its start".to_owned()))
    }

    fn find(&self, folder: &Path) -> Result<Option<Running>, Failure> {
        Ok(find(folder)?.map(|server| running(&server)))
    }

    fn stop(&self, folder: &Path) -> Result<(), Failure> {
        match find(folder)? {
            Some(server) => Ok(server.stop(Shutdown::Fast)?),
            None => Ok(()),
        }
    }
}

/// A machine without the programs cannot be running the server.
fn find(folder: &Path) -> Result<Option<Detached>, Failure> {
    match Programs::find() {
        Ok(programs) => Ok(Detached::find(&programs, folder)?),
        Err(_) => Ok(None),
    }
}

fn running(server: &Detached) -> Running {
    Running { pid: server.pid(), url: server.url(DATABASE) }
}
