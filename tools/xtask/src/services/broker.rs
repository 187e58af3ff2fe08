//! Code that the brokers' files share.

use std::path::Path;

use onceward_local_brokers::{LocalBroker, Server, find_detached};

use super::Running;
use crate::error::XtaskError;

/// Starts a broker that outlives this process.
pub(super) fn start<B: LocalBroker>(programs: &B, folder: &Path) -> Result<Running, XtaskError> {
    let detached = Server::start(programs, folder)?.detach();
    let ended = || XtaskError::Failed(format!("{} ended right after its start", B::NAME));
    detached.map(|server| Running { pid: server.pid(), url: server.url().to_owned() }).ok_or_else(ended)
}

/// Returns the broker that runs in this folder, if any.
pub(super) fn find(folder: &Path) -> Result<Option<Running>, XtaskError> {
    Ok(find_detached(folder)?.map(|server| Running { pid: server.pid(), url: server.url().to_owned() }))
}
