//! A test run's share in the servers. Several runs may overlap: the last to end stops what tests alone had started.

use std::fs::{self, File};
use std::io::ErrorKind;

use super::{Services, Status};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Locked shared by each test run.
const USERS: &str = "users";
/// Present while the servers run only for tests.
const TEMPORARY: &str = "temporary";

/// The servers, held for one test run.
pub(crate) struct Lease {
    services: Services,
    users: File,
    all: Vec<Status>,
}

impl Lease {
    /// Starts what does not run yet.
    pub(crate) fn take(workspace: &Workspace) -> Result<Lease, Failure> {
        let services = Services::of(workspace);
        let users = services.file(USERS)?;
        users.lock_shared().map_err(Failure::of("lock target/services/users"))?;
        let (all, started) = services.up()?;
        if started {
            services.file(TEMPORARY)?;
        }
        Ok(Lease { services, users, all })
    }

    /// The variables by which tests find the servers.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all.iter().filter_map(|status| Some((status.variable, status.running.as_ref()?.url.as_str())))
    }

    /// Stops the servers if tests started them and no other run uses them.
    pub(crate) fn release(self) -> Result<(), Failure> {
        self.users.unlock().map_err(Failure::of("unlock target/services/users"))?;
        let last = self.users.try_lock().is_ok();
        if last && keep(&self.services)? {
            self.services.down()?;
        }
        Ok(())
    }
}

/// From now on the servers run until somebody stops them. Returns whether they were temporary until now.
pub(super) fn keep(services: &Services) -> Result<bool, Failure> {
    match fs::remove_file(services.folder.join(TEMPORARY)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::of("remove the marker of temporary servers")(error)),
    }
}
