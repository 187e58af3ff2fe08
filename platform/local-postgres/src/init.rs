//! Creates a cluster next to its final path and renames it, so that a crash leaves nothing incomplete.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Output;

use crate::account::ServerAccount;
use crate::cluster_paths::ClusterPaths;
use crate::folders::owned_folder;
use crate::{LocalPostgresError, Programs, SUPERUSER};

/// The file that holds our settings, included by the cluster's postgresql.conf.
pub(crate) const OUR_CONF: &str = "onceward.conf";

/// Creates the cluster if it does not exist; returns the programs to run it with, in the cluster's version.
pub(crate) fn ensure(
    programs: &Programs,
    paths: &ClusterPaths,
    without_fsync: bool,
) -> Result<Programs, LocalPostgresError> {
    let version_file = paths.pg().join("PG_VERSION");
    if version_file.exists() {
        let created_by = fs::read_to_string(&version_file).map_err(LocalPostgresError::io("read", &version_file))?;
        let created_by = created_by.trim();
        let same = created_by.parse().ok().and_then(|major| programs.of_major(major));
        return same.ok_or_else(|| LocalPostgresError::OtherVersion {
            data: paths.base.clone(),
            created_by: created_by.to_owned(),
            found: programs.version.0,
        });
    }
    create(programs, paths, without_fsync)?;
    Ok(programs.clone())
}

fn create(programs: &Programs, paths: &ClusterPaths, without_fsync: bool) -> Result<(), LocalPostgresError> {
    let unfinished = paths.base.join("pg.new");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(LocalPostgresError::io("remove", &unfinished))?;
    }
    owned_folder(&unfinished, 0o700, &paths.account)?;
    let password_file = paths.password();
    write_private(&password_file, &new_password()?, &paths.account)?;

    let mut command = paths.account.command(&programs.program("initdb"));
    command.args(["--no-locale", "-E", "UTF8", "-U", SUPERUSER, "--auth-local=trust", "--auth-host=scram-sha-256"]);
    command.arg("--pwfile").arg(&password_file).arg("-D").arg(&unfinished);
    if without_fsync {
        command.arg("--no-sync");
    }
    run("initdb", command.output().map_err(LocalPostgresError::io("run", &programs.program("initdb")))?)?;

    let conf = unfinished.join("postgresql.conf");
    let mut file = OpenOptions::new().append(true).open(&conf).map_err(LocalPostgresError::io("open", &conf))?;
    file.write_all(format!("\ninclude_if_exists = '{OUR_CONF}'\n").as_bytes())
        .map_err(LocalPostgresError::io("write", &conf))?;
    file.sync_all().map_err(LocalPostgresError::io("write", &conf))?;
    fs::rename(&unfinished, paths.pg()).map_err(LocalPostgresError::io("rename", &unfinished))
}

/// Turns a failed program into an error that contains its output.
pub(crate) fn run(program: &str, output: Output) -> Result<(), LocalPostgresError> {
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(LocalPostgresError::ProgramFailed {
        program: program.to_owned(),
        output: String::from_utf8_lossy(&text).into_owned(),
    })
}

/// Writes a file that only the server's account and root can read.
pub(crate) fn write_private(path: &Path, text: &str, account: &ServerAccount) -> Result<(), LocalPostgresError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).map_err(LocalPostgresError::io("create", path))?;
    file.write_all(text.as_bytes()).map_err(LocalPostgresError::io("write", path))?;
    account.own(path)
}

/// Returns 24 bytes from the system's generator, in hexadecimal.
fn new_password() -> Result<String, LocalPostgresError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 24];
    let mut file = fs::File::open(source).map_err(LocalPostgresError::io("open", source))?;
    file.read_exact(&mut bytes).map_err(LocalPostgresError::io("read", source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
