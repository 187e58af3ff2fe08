//! A test run's shared hold on the servers. Runs may overlap: the last to end stops the servers that only tests had
//! started.

use std::env;
use std::fs::File;

use super::test_servers::{StartReport, TestServers, WITHOUT};
use super::{ALL, Service};
use crate::error::XtaskError;
use crate::workspace::Workspace;

/// The file on which each test run holds a shared lock.
const USERS: &str = "users";

/// The servers, held for one test run.
pub(crate) struct TestServersGuard {
    servers: TestServers,
    users: File,
    started: StartReport,
}

impl TestServersGuard {
    /// Starts the servers that do not run yet, except those that the user has named by variable.
    pub(crate) fn acquire(workspace: &Workspace) -> Result<TestServersGuard, XtaskError> {
        let servers = TestServers::of(workspace)?;
        for service in ALL.iter().filter(|service| is_named(**service)) {
            println!("using the server that {} names; no private {} is started", service.variable(), service.name());
        }
        let users = servers.file(USERS)?;
        users.lock_shared().map_err(XtaskError::of("lock target/services/users"))?;
        match servers.up(|service| !is_named(service), true) {
            Ok(started) => Ok(TestServersGuard { servers, users, started }),
            Err(failure) => {
                stop_if_last(&servers, &users)?;
                Err(failure)
            }
        }
    }

    /// Returns the variables by which tests find the servers.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        let is_excluded = |name: &str| self.started.excluded.iter().any(|excluded| excluded.service.name() == name);
        for service in ALL.iter().filter(|service| !is_named(**service) && !is_excluded(service.name())) {
            let status = self.started.all.iter().find(|status| status.name == service.name());
            if let Some(running) = status.and_then(|status| status.running.as_ref()) {
                variables.push((service.variable(), running.url.clone()));
                variables.extend(service.further_variable(&self.servers.folder_of(*service)));
            }
        }
        let substitutes = self.started.excluded.iter().filter_map(|excluded| excluded.service.substitute());
        variables.extend(substitutes.map(|substitute| (substitute.variable, substitute.value.to_owned())));
        // For tests of the server itself, which a substitute does not help.
        let mut names: Vec<&str> = self.started.excluded.iter().map(|excluded| excluded.service.name()).collect();
        names.extend(self.servers.others_left_out());
        variables.push((WITHOUT, names.join(",")));
        variables
    }

    /// Returns the notes to be printed at the very end of the run.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = self.started.notes();
        notes.extend(self.servers.notes());
        notes
    }

    /// Stops the servers that tests started, if no other run uses them.
    pub(crate) fn release(self) -> Result<(), XtaskError> {
        stop_if_last(&self.servers, &self.users)
    }
}

fn stop_if_last(servers: &TestServers, users: &File) -> Result<(), XtaskError> {
    users.unlock().map_err(XtaskError::of("unlock target/services/users"))?;
    if users.try_lock().is_ok() { servers.stop_temporary() } else { Ok(()) }
}

/// Returns whether the user has named a server for this service.
fn is_named(service: &dyn Service) -> bool {
    env::var_os(service.variable()).is_some_and(|url| !url.is_empty())
}
