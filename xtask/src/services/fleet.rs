//! All services of one workspace: installed, started, looked at and stopped together.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use super::{ALL, Service, Status, state};
use crate::failure::Failure;
use crate::install;
use crate::workspace::Workspace;

/// Names services to do without, separated by commas.
pub(super) const WITHOUT: &str = "ONCEWARD_WITHOUT";

/// The services of one workspace.
pub(super) struct Fleet {
    folder: PathBuf,
    wanted: Vec<&'static dyn Service>,
    left_out: Vec<&'static dyn Service>,
}

/// What came of starting them.
pub(super) struct Up {
    pub(super) all: Vec<Status>,
    pub(super) absent: Vec<Absent>,
}

/// A service that tests must do without.
pub(super) struct Absent {
    pub(super) service: &'static dyn Service,
    why: String,
}

impl Up {
    /// To be said last.
    pub(super) fn notes(&self) -> Vec<String> {
        self.absent.iter().map(Absent::note).collect()
    }
}

impl Absent {
    fn note(&self) -> String {
        let left_out = || format!("{} TESTS ARE LEFT OUT", self.service.name().to_uppercase());
        let what = self.service.substitute().map_or_else(left_out, |substitute| substitute.note.to_owned());
        format!("*** {what} ({}) ***", self.why.lines().next().unwrap_or_default())
    }
}

impl Fleet {
    pub(super) fn of(workspace: &Workspace) -> Result<Fleet, Failure> {
        let without = env::var(WITHOUT).unwrap_or_default();
        let names: Vec<&str> = without.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Some(name) = names.iter().find(|name| !ALL.iter().any(|service| service.name() == **name)) {
            let known: Vec<&str> = ALL.iter().map(|service| service.name()).collect();
            return Err(Failure::Usage(format!("{WITHOUT} names `{name}`; it can name {}", known.join(", "))));
        }
        let (left_out, wanted) = ALL.iter().copied().partition(|service| names.contains(&service.name()));
        Ok(Fleet { folder: workspace.target().join("services"), wanted, left_out })
    }

    /// Starts what does not run yet, and says so on stderr: stdout may be JSON. `temporary` ones are those that
    /// [`Fleet::keep`] and [`Fleet::end_temporary`] are about.
    pub(super) fn up(&self, wanted: impl Fn(&dyn Service) -> bool, temporary: bool) -> Result<Up, Failure> {
        let _lock = self.lock()?;
        let mut idle = Vec::new();
        for service in self.wanted.iter().filter(|service| wanted(**service)) {
            if service.find(&self.place(*service))?.is_none() {
                idle.push(*service);
            }
        }
        let absent = self.get(&idle)?;
        idle.retain(|service| !absent.iter().any(|absent| absent.service.name() == service.name()));
        self.start(&idle, temporary)?;
        Ok(Up { all: self.write_state()?, absent })
    }

    /// Installs what all of them need.
    pub(super) fn install(&self) -> Result<Vec<String>, Failure> {
        let _lock = self.lock()?;
        Ok(self.get(&self.wanted)?.iter().map(Absent::note).collect())
    }

    /// Stops what runs.
    pub(super) fn down(&self) -> Result<Vec<Status>, Failure> {
        let _lock = self.lock()?;
        ALL.iter().try_for_each(|service| self.stop(*service))?;
        self.write_state()
    }

    /// Asks the servers themselves, not the state file: it may have been written before a reboot.
    pub(super) fn status(&self) -> Result<Vec<Status>, Failure> {
        let of = |service: &&'static dyn Service| {
            let running = service.find(&self.place(*service))?;
            Ok(Status { name: service.name(), variable: service.variable(), running })
        };
        ALL.iter().map(of).collect()
    }

    /// From now on the servers run until somebody stops them. Returns those that were temporary until now.
    pub(super) fn keep(&self) -> Result<Vec<&'static dyn Service>, Failure> {
        let mut kept = Vec::new();
        for service in ALL {
            match fs::remove_file(self.folder.join(marker(*service))) {
                Ok(()) => kept.push(*service),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Failure::of("remove the marker of a temporary server")(error)),
            }
        }
        Ok(kept)
    }

    /// Stops those that run only for tests.
    pub(super) fn end_temporary(&self) -> Result<(), Failure> {
        let _lock = self.lock()?;
        self.keep()?.into_iter().try_for_each(|service| self.stop(service))?;
        self.write_state().map(drop)
    }

    /// A service's folder.
    pub(super) fn place(&self, service: &dyn Service) -> PathBuf {
        self.folder.join(service.name())
    }

    /// A file beside the servers' folders, created if it is missing.
    pub(super) fn file(&self, name: &str) -> Result<File, Failure> {
        fs::create_dir_all(&self.folder).map_err(Failure::of("create target/services"))?;
        let path = self.folder.join(name);
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        options.open(&path).map_err(Failure::of(format_args!("open {}", path.display())))
    }

    /// Installs what these need, all packages in one go. Returns those that cannot be had and that can be replaced, and
    /// those that were not wanted in the first place.
    fn get(&self, services: &[&'static dyn Service]) -> Result<Vec<Absent>, Failure> {
        let (optional, needed): (Vec<&'static dyn Service>, Vec<_>) =
            services.iter().copied().partition(|service| service.substitute().is_some());
        self.get_all(&needed)?;
        let not_wanted =
            |service: &&'static dyn Service| Absent { service: *service, why: format!("as {WITHOUT} asks") };
        let mut absent: Vec<Absent> = self.left_out.iter().map(not_wanted).collect();
        for service in optional {
            if let Err(failure) = self.get_all(&[service]) {
                absent.push(Absent { service, why: failure.to_string() });
            }
        }
        Ok(absent)
    }

    fn get_all(&self, services: &[&'static dyn Service]) -> Result<(), Failure> {
        let needs: Vec<_> = services.iter().flat_map(|service| service.needs(&self.place(*service))).collect();
        install::ensure(&needs)?;
        services.iter().try_for_each(|service| service.fetch(&self.place(*service)))
    }

    /// All at once: the slowest takes as long as the others together.
    fn start(&self, services: &[&'static dyn Service], temporary: bool) -> Result<(), Failure> {
        if services.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = services.iter().map(|service| service.name()).collect();
        eprintln!("starting {}", names.join(", "));
        thread::scope(|scope| {
            let start = |service: &&'static dyn Service| {
                let service = *service;
                scope.spawn(move || self.start_one(service, temporary))
            };
            let starting: Vec<_> = services.iter().map(start).collect();
            let panicked = |_| Err(Failure::Failed("a service's start panicked".to_owned()));
            // Nobody is left behind half started, whatever happens to the others.
            let started: Vec<_> = starting.into_iter().map(|one| one.join().unwrap_or_else(panicked)).collect();
            started.into_iter().collect()
        })
    }

    fn start_one(&self, service: &dyn Service, temporary: bool) -> Result<(), Failure> {
        if temporary {
            self.file(&marker(service))?;
        }
        let began = Instant::now();
        let running = service.start(&self.place(service))?;
        eprintln!("{} started in {:.1} s (pid {})", service.name(), began.elapsed().as_secs_f64(), running.pid);
        Ok(())
    }

    fn stop(&self, service: &dyn Service) -> Result<(), Failure> {
        let folder = self.place(service);
        let running = service.find(&folder)?;
        service.stop(&folder)?;
        if running.is_some() {
            eprintln!("{} stopped", service.name());
        }
        Ok(())
    }

    /// One `up` or `down` at a time: two would start the same server twice.
    fn lock(&self) -> Result<File, Failure> {
        let file = self.file("lock")?;
        file.lock().map_err(Failure::of("lock target/services"))?;
        Ok(file)
    }

    fn write_state(&self) -> Result<Vec<Status>, Failure> {
        let all = self.status()?;
        // The URLs carry passwords.
        let private = self.file("state.json")?.set_permissions(Permissions::from_mode(0o600));
        let path = self.folder.join("state.json");
        private.and_then(|()| fs::write(path, state::to_json(&all))).map_err(Failure::of("write state.json"))?;
        Ok(all)
    }
}

/// Present while a server runs only for tests.
fn marker(service: &dyn Service) -> String {
    format!("{}.temporary", service.name())
}
