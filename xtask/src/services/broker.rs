//! What the brokers' files share.

use std::path::Path;

use onceward_local_brokers::{Broker, Server, find_detached};

use super::Running;
use crate::failure::Failure;

/// Starts it so that it outlives us.
pub(super) fn start<B: Broker>(programs: &B, folder: &Path) -> Result<Running, Failure> {
    let detached = Server::start(programs, folder)?.detach();
    let ended = || Failure::Failed(format!("{} ended right after its start", B::NAME));
    detached.map(|server| Running { pid: server.pid(), url: server.url().to_owned() }).ok_or_else(ended)
}

/// The one that runs there.
pub(super) fn find(folder: &Path) -> Result<Option<Running>, Failure> {
    Ok(find_detached(folder)?.map(|server| Running { pid: server.pid(), url: server.url().to_owned() }))
}
