//! `cargo xtask test`: every test, against real servers that it brings along.

use std::process::ExitCode;
use std::time::Instant;

use crate::failure::Failure;
use crate::install::{self, BROWSER, BUILD_TOOLS, PROMTOOL};
use crate::services::Lease;
use crate::workspace::{Workspace, status};

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let without_services = args.first().is_some_and(|arg| arg == "--no-services");
    let cargo_args = if without_services { &args[1..] } else { args };

    install::ensure(&[&BUILD_TOOLS, &PROMTOOL, &BROWSER])?;
    let mut test = workspace.cargo();
    test.args(["test", "--workspace", "--no-fail-fast"]).args(cargo_args);
    let lease = if without_services {
        println!("no servers, as asked: tests that need one will fail");
        None
    } else {
        let lease = Lease::take(workspace)?;
        test.envs(lease.variables());
        Some(lease)
    };

    let tested = status(&mut test);
    let notes = lease.as_ref().map_or_else(Vec::new, Lease::notes);
    let released = lease.map_or(Ok(()), Lease::release);
    // Ended by a signal: no code to pass on, but a failure all the same.
    let code = tested?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    released?;
    let verdict = if code == 0 { "every test passed" } else { "the tests FAILED" };
    println!("{verdict}, after {} s in all", began.elapsed().as_secs());
    notes.iter().for_each(|note| println!("{note}"));
    Ok(ExitCode::from(code))
}
