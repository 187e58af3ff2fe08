//! A test run's share in the servers. Several runs may overlap: the last to end stops what tests alone had started.

use std::env;
use std::fs::File;

use super::fleet::{Fleet, Up, WITHOUT};
use super::{ALL, Service};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Locked shared by each test run.
const USERS: &str = "users";

/// The servers, held for one test run.
pub(crate) struct Lease {
    fleet: Fleet,
    users: File,
    up: Up,
}

impl Lease {
    /// Starts what does not run yet, except what the user has named by its variable.
    pub(crate) fn take(workspace: &Workspace) -> Result<Lease, Failure> {
        let fleet = Fleet::of(workspace)?;
        for service in ALL.iter().filter(|service| is_named(**service)) {
            println!("using the server that {} names; no private {} is started", service.variable(), service.name());
        }
        let users = fleet.file(USERS)?;
        users.lock_shared().map_err(Failure::of("lock target/services/users"))?;
        match fleet.up(|service| !is_named(service), true) {
            Ok(up) => Ok(Lease { fleet, users, up }),
            Err(failure) => {
                end_if_last(&fleet, &users)?;
                Err(failure)
            }
        }
    }

    /// The variables by which tests find the servers.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        let absent = |name: &str| self.up.absent.iter().any(|absent| absent.service.name() == name);
        for service in ALL.iter().filter(|service| !is_named(**service) && !absent(service.name())) {
            let status = self.up.all.iter().find(|status| status.name == service.name());
            if let Some(running) = status.and_then(|status| status.running.as_ref()) {
                variables.push((service.variable(), running.url.clone()));
                variables.extend(service.further_variable(&self.fleet.place(*service)));
            }
        }
        let substitutes = self.up.absent.iter().filter_map(|absent| absent.service.substitute());
        variables.extend(substitutes.map(|substitute| (substitute.variable, substitute.value.to_owned())));
        // For tests of the server itself, which no substitute helps.
        let names: Vec<&str> = self.up.absent.iter().map(|absent| absent.service.name()).collect();
        variables.push((WITHOUT, names.join(",")));
        variables
    }

    /// What must be said at the very end of the run.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.up.notes()
    }

    /// Stops the servers that tests started, if no other run uses them.
    pub(crate) fn release(self) -> Result<(), Failure> {
        end_if_last(&self.fleet, &self.users)
    }
}

fn end_if_last(fleet: &Fleet, users: &File) -> Result<(), Failure> {
    users.unlock().map_err(Failure::of("unlock target/services/users"))?;
    if users.try_lock().is_ok() { fleet.end_temporary() } else { Ok(()) }
}

/// Whether the user has a server of his own for this.
fn is_named(service: &dyn Service) -> bool {
    env::var_os(service.variable()).is_some_and(|url| !url.is_empty())
}
