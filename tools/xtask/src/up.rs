//! `cargo xtask up`: from a fresh clone to a running product.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use onceward_local_postgres::Programs;

use crate::error::XtaskError;
use crate::install::{self, BUILD_TOOLS, POSTGRES};
use crate::workspace::{Workspace, status};

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, XtaskError> {
    let (release, forwarded) = split(args);
    // With the user's own database, PostgreSQL's programs are not needed.
    let private_database = env::var_os("DATABASE_URL").is_none_or(|url| url.is_empty());
    install::ensure(if private_database { &[&BUILD_TOOLS, &POSTGRES] } else { &[&BUILD_TOOLS] })?;
    if private_database {
        let programs = Programs::find()?;
        println!("PostgreSQL {}.{} in {}", programs.version.0, programs.version.1, programs.bin_dir.display());
    }
    println!("building onceward");
    let mut build = workspace.cargo();
    build.args(["build", "-p", "onceward-server"]);
    let profile = if release {
        build.arg("--release");
        "release"
    } else {
        "debug"
    };
    if !status(&mut build)?.success() {
        return Ok(ExitCode::FAILURE);
    }
    let program = workspace.bin_dir.with_file_name(profile).join("onceward");
    // Replaces this process, so that only the program gets Ctrl-C and the prompt waits until it has shut down.
    let error = Command::new(&program).arg("up").args(forwarded).exec();
    Err(XtaskError::Failed(format!("could not run {}: {error}", program.display())))
}

/// Separates our own option from the arguments of `onceward up`.
fn split(args: &[String]) -> (bool, Vec<&String>) {
    let ours = args.iter().take_while(|arg| *arg != "--");
    let release = ours.clone().any(|arg| arg == "--release");
    let count = ours.clone().count();
    let forwarded = ours.filter(|arg| *arg != "--release").chain(args.iter().skip(count + 1)).collect();
    (release, forwarded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_after_two_dashes_are_forwarded() {
        let args = ["--data", "x", "--release", "--", "--release", "--help"].map(str::to_owned);
        let (release, forwarded) = split(&args);
        assert!(release);
        assert_eq!(forwarded, ["--data", "x", "--release", "--help"]);
    }
}
