//! Creating a cluster: made beside its place and renamed into it, so that a crash leaves nothing half made.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Output;

use crate::account::Account;
use crate::folders::owned_folder;
use crate::home::Home;
use crate::{Error, Programs, SUPERUSER};

/// The file that holds our settings, included by the cluster's postgresql.conf.
pub(crate) const OUR_CONF: &str = "onceward.conf";

/// Creates the cluster unless it exists; returns the programs to run it with, which follow its version.
pub(crate) fn ensure(programs: &Programs, home: &Home, without_fsync: bool) -> Result<Programs, Error> {
    let version_file = home.pg().join("PG_VERSION");
    if version_file.exists() {
        let made_by = fs::read_to_string(&version_file).map_err(Error::io("read", &version_file))?;
        let made_by = made_by.trim();
        let same = made_by.parse().ok().and_then(|major| programs.of_major(major));
        return same.ok_or_else(|| Error::OtherVersion {
            data: home.base.clone(),
            made_by: made_by.to_owned(),
            found: programs.version.0,
        });
    }
    create(programs, home, without_fsync)?;
    Ok(programs.clone())
}

fn create(programs: &Programs, home: &Home, without_fsync: bool) -> Result<(), Error> {
    let unfinished = home.base.join("pg.new");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(Error::io("remove", &unfinished))?;
    }
    owned_folder(&unfinished, 0o700, &home.account)?;
    let password_file = home.password();
    write_private(&password_file, &new_password()?, &home.account)?;

    let mut command = home.account.command(&programs.program("initdb"));
    command.args(["--no-locale", "-E", "UTF8", "-U", SUPERUSER, "--auth-local=trust", "--auth-host=scram-sha-256"]);
    command.arg("--pwfile").arg(&password_file).arg("-D").arg(&unfinished);
    if without_fsync {
        command.arg("--no-sync");
    }
    run("initdb", command.output().map_err(Error::io("run", &programs.program("initdb")))?)?;

    let conf = unfinished.join("postgresql.conf");
    let mut file = OpenOptions::new().append(true).open(&conf).map_err(Error::io("open", &conf))?;
    file.write_all(format!("\ninclude_if_exists = '{OUR_CONF}'\n").as_bytes()).map_err(Error::io("write", &conf))?;
    file.sync_all().map_err(Error::io("write", &conf))?;
    fs::rename(&unfinished, home.pg()).map_err(Error::io("rename", &unfinished))
}

/// Turns a failed program into an error that carries what it printed.
pub(crate) fn run(program: &str, output: Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(Error::ProgramFailed { program: program.to_owned(), output: String::from_utf8_lossy(&text).into_owned() })
}

/// Writes a file that only the server's account can read (and root).
pub(crate) fn write_private(path: &Path, text: &str, account: &Account) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).map_err(Error::io("create", path))?;
    file.write_all(text.as_bytes()).map_err(Error::io("write", path))?;
    account.own(path)
}

/// 24 bytes from the system's generator, in hexadecimal.
fn new_password() -> Result<String, Error> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 24];
    let mut file = fs::File::open(source).map_err(Error::io("open", source))?;
    file.read_exact(&mut bytes).map_err(Error::io("read", source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
