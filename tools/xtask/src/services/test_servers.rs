//! All services of one workspace: installed, started, queried and stopped together.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use super::{ALL, Service, Status, state};
use crate::error::XtaskError;
use crate::install;
use crate::workspace::Workspace;

/// The variable that lists what to exclude, separated by commas.
pub(super) const WITHOUT: &str = "ONCEWARD_WITHOUT";

/// What tests can exclude besides services: `small-disk` mounts a file system, which not every container allows.
const OTHERS: &[&str] = &["small-disk"];

/// The services of one workspace.
pub(super) struct TestServers {
    folder: PathBuf,
    wanted: Vec<&'static dyn Service>,
    left_out: Vec<&'static dyn Service>,
    /// The excluded ones of [`OTHERS`].
    others_left_out: Vec<&'static str>,
}

/// The result of starting the services.
pub(super) struct StartReport {
    pub(super) all: Vec<Status>,
    pub(super) excluded: Vec<ExcludedService>,
}

/// A service that is excluded from the tests.
pub(super) struct ExcludedService {
    pub(super) service: &'static dyn Service,
}

impl StartReport {
    /// Returns the notes to be printed last.
    pub(super) fn notes(&self) -> Vec<String> {
        self.excluded.iter().map(ExcludedService::note).collect()
    }
}

impl ExcludedService {
    fn note(&self) -> String {
        let instead = self.service.substitute().map_or_else(String::new, |substitute| format!("; {}", substitute.note));
        format!("*** {} TESTS WERE LEFT OUT, because of {WITHOUT}{instead} ***", self.service.name().to_uppercase())
    }
}

impl TestServers {
    pub(super) fn of(workspace: &Workspace) -> Result<TestServers, XtaskError> {
        TestServers::without(workspace.target().join("services"), &env::var(WITHOUT).unwrap_or_default())
    }

    /// Selects all services except those that `without` names.
    fn without(folder: PathBuf, without: &str) -> Result<TestServers, XtaskError> {
        let names: Vec<&str> = without.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let known: Vec<&str> = ALL.iter().map(|service| service.name()).chain(OTHERS.iter().copied()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            return Err(XtaskError::Usage(format!("{WITHOUT} names `{name}`; it can name {}", known.join(", "))));
        }
        let (left_out, wanted) = ALL.iter().copied().partition(|service| names.contains(&service.name()));
        let others_left_out = OTHERS.iter().copied().filter(|name| names.contains(name)).collect();
        Ok(TestServers { folder, wanted, left_out, others_left_out })
    }

    /// Returns what the tests exclude besides services.
    pub(super) fn others_left_out(&self) -> &[&'static str] {
        &self.others_left_out
    }

    /// Returns the notes to be printed last, about exclusions that are not services.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |name: &&str| format!("*** {} TESTS WERE LEFT OUT, because of {WITHOUT} ***", name.to_uppercase());
        self.others_left_out.iter().map(note).collect()
    }

    /// Starts the services that do not run yet, and reports that on stderr, because stdout may be JSON. `temporary`
    /// ones are subject to [`TestServers::keep`] and [`TestServers::stop_temporary`].
    pub(super) fn up(&self, wanted: impl Fn(&dyn Service) -> bool, temporary: bool) -> Result<StartReport, XtaskError> {
        let _lock = self.lock()?;
        let mut idle = Vec::new();
        for service in self.wanted.iter().filter(|service| wanted(**service)) {
            if service.find(&self.folder_of(*service))?.is_none() {
                idle.push(*service);
            }
        }
        let excluded = self.install_requirements(&idle)?;
        idle.retain(|service| !excluded.iter().any(|excluded| excluded.service.name() == service.name()));
        self.start(&idle, temporary)?;
        Ok(StartReport { all: self.write_state()?, excluded })
    }

    /// Installs the requirements of all wanted services.
    pub(super) fn install(&self) -> Result<Vec<String>, XtaskError> {
        let _lock = self.lock()?;
        Ok(self.install_requirements(&self.wanted)?.iter().map(ExcludedService::note).collect())
    }

    /// Stops all running services.
    pub(super) fn down(&self) -> Result<Vec<Status>, XtaskError> {
        let _lock = self.lock()?;
        ALL.iter().try_for_each(|service| self.stop(*service))?;
        self.write_state()
    }

    /// Queries the servers themselves, not the state file, which may have been written before a reboot.
    pub(super) fn status(&self) -> Result<Vec<Status>, XtaskError> {
        let of = |service: &&'static dyn Service| {
            let running = service.find(&self.folder_of(*service))?;
            Ok(Status { name: service.name(), variable: service.variable(), running })
        };
        ALL.iter().map(of).collect()
    }

    /// Makes temporary servers permanent: they run until they are stopped explicitly. Returns those that were
    /// temporary.
    pub(super) fn keep(&self) -> Result<Vec<&'static dyn Service>, XtaskError> {
        let mut kept = Vec::new();
        for service in ALL {
            match fs::remove_file(self.folder.join(marker(*service))) {
                Ok(()) => kept.push(*service),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(XtaskError::of("remove the marker of a temporary server")(error)),
            }
        }
        Ok(kept)
    }

    /// Stops the servers that run only for tests.
    pub(super) fn stop_temporary(&self) -> Result<(), XtaskError> {
        let _lock = self.lock()?;
        self.keep()?.into_iter().try_for_each(|service| self.stop(service))?;
        self.write_state().map(drop)
    }

    /// Returns a service's folder.
    pub(super) fn folder_of(&self, service: &dyn Service) -> PathBuf {
        self.folder.join(service.name())
    }

    /// Opens a file beside the servers' folders, creating it if it is missing.
    pub(super) fn file(&self, name: &str) -> Result<File, XtaskError> {
        fs::create_dir_all(&self.folder).map_err(XtaskError::of("create target/services"))?;
        let path = self.folder.join(name);
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        options.open(&path).map_err(XtaskError::of(format_args!("open {}", path.display())))
    }

    /// Installs the requirements of these services, all packages in one go. Fails if anything is unavailable, because
    /// tests that need it would prove nothing. Returns the excluded services.
    fn install_requirements(&self, services: &[&'static dyn Service]) -> Result<Vec<ExcludedService>, XtaskError> {
        let (optional, needed): (Vec<&'static dyn Service>, Vec<_>) =
            services.iter().copied().partition(|service| service.substitute().is_some());
        self.install_all(&needed)?;
        for service in optional {
            self.install_all(&[service]).map_err(|failure| unavailable_error(service, &failure))?;
        }
        Ok(self.left_out.iter().map(|service| ExcludedService { service: *service }).collect())
    }

    fn install_all(&self, services: &[&'static dyn Service]) -> Result<(), XtaskError> {
        let requirements: Vec<_> =
            services.iter().flat_map(|service| service.requirements(&self.folder_of(*service))).collect();
        install::ensure(&requirements)?;
        services.iter().try_for_each(|service| service.fetch(&self.folder_of(*service)))
    }

    /// Starts all services concurrently, because the slowest takes as long as the others together.
    fn start(&self, services: &[&'static dyn Service], temporary: bool) -> Result<(), XtaskError> {
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
            let panicked = |_| Err(XtaskError::Failed("a service's start panicked".to_owned()));
            // Waits for every start, so that none is left half started when another fails.
            let started: Vec<_> = starting.into_iter().map(|one| one.join().unwrap_or_else(panicked)).collect();
            started.into_iter().collect()
        })
    }

    fn start_one(&self, service: &dyn Service, temporary: bool) -> Result<(), XtaskError> {
        if temporary {
            self.file(&marker(service))?;
        }
        let start = Instant::now();
        let running = service.start(&self.folder_of(service))?;
        eprintln!("{} started in {:.1} s (pid {})", service.name(), start.elapsed().as_secs_f64(), running.pid);
        Ok(())
    }

    fn stop(&self, service: &dyn Service) -> Result<(), XtaskError> {
        let folder = self.folder_of(service);
        let running = service.find(&folder)?;
        service.stop(&folder)?;
        if running.is_some() {
            eprintln!("{} stopped", service.name());
        }
        Ok(())
    }

    /// Locks out other `up` and `down` runs: two would start the same server twice.
    fn lock(&self) -> Result<File, XtaskError> {
        let file = self.file("lock")?;
        file.lock().map_err(XtaskError::of("lock target/services"))?;
        Ok(file)
    }

    fn write_state(&self) -> Result<Vec<Status>, XtaskError> {
        let all = self.status()?;
        // The URLs contain passwords.
        let private = self.file("state.json")?.set_permissions(Permissions::from_mode(0o600));
        let path = self.folder.join("state.json");
        private.and_then(|()| fs::write(path, state::to_json(&all))).map_err(XtaskError::of("write state.json"))?;
        Ok(all)
    }
}

/// Returns an error that explains what to do if a server is unavailable.
fn unavailable_error(service: &dyn Service, failure: &XtaskError) -> XtaskError {
    let name = service.name();
    XtaskError::Failed(format!(
        "{name} is not available: {failure}\nIts tests would prove nothing without it. To leave them out on purpose, set {WITHOUT}={name}."
    ))
}

/// Returns the name of the file that exists while a server runs only for tests.
fn marker(service: &dyn Service) -> String {
    format!("{}.temporary", service.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::kafka::KafkaService;

    #[test]
    fn an_unavailable_server_fails_the_run_with_advice_how_to_leave_it_out() {
        let failure = unavailable_error(&KafkaService, &XtaskError::Failed("there is no Java".to_owned())).to_string();
        assert!(failure.contains("there is no Java") && failure.contains("ONCEWARD_WITHOUT=kafka"), "{failure}");
    }

    #[test]
    fn a_small_disk_can_be_left_out_and_is_named_in_the_notes() {
        let servers = TestServers::without(PathBuf::new(), "kafka, small-disk").unwrap();
        assert_eq!(servers.others_left_out(), ["small-disk"]);
        assert_eq!(servers.left_out.iter().map(|service| service.name()).collect::<Vec<_>>(), ["kafka"]);
        assert_eq!(servers.notes(), ["*** SMALL-DISK TESTS WERE LEFT OUT, because of ONCEWARD_WITHOUT ***"]);
        assert!(TestServers::without(PathBuf::new(), "").unwrap().notes().is_empty());
    }

    #[test]
    fn an_unknown_name_is_refused_with_a_list_of_the_known_ones() {
        let refused = TestServers::without(PathBuf::new(), "rabbit").err().expect("the name is unknown").to_string();
        assert!(
            refused.contains("`rabbit`") && refused.contains("rabbitmq") && refused.contains("small-disk"),
            "{refused}"
        );
    }

    #[test]
    fn tests_that_were_left_out_are_not_reported_as_run() {
        let note = ExcludedService { service: &KafkaService }.note();
        assert!(note.contains("KAFKA TESTS WERE LEFT OUT"), "{note}");
        assert!(!note.to_uppercase().contains("KAFKA TESTS RUN"), "{note}");
    }
}
