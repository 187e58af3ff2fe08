//! `cargo xtask test`: every test, against real servers that it starts.

use std::process::ExitCode;
use std::time::Instant;

use crate::error::XtaskError;
use crate::group_guard::status_guarded;
use crate::install::{self, BROWSER, BUILD_TOOLS, POOLER, PROMTOOL, PYTHON};
use crate::services::TestServersGuard;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, XtaskError> {
    let start = Instant::now();
    let without_services = args.first().is_some_and(|arg| arg == "--no-services");
    let cargo_args = if without_services { &args[1..] } else { args };

    install::ensure(&[&BUILD_TOOLS, &PROMTOOL, &POOLER, &BROWSER, &PYTHON])?;
    install::ensure_python_packages(workspace)?;
    let mut test = workspace.cargo();
    test.args(["test", "--workspace", "--no-fail-fast"]).args(cargo_args);
    let guard = if without_services {
        println!("no servers are started (--no-services): tests that need one will fail");
        None
    } else {
        let guard = TestServersGuard::acquire(workspace)?;
        test.envs(guard.variables());
        Some(guard)
    };

    let tested = status_guarded(&mut test);
    let notes = guard.as_ref().map_or_else(Vec::new, TestServersGuard::notes);
    let released = guard.map_or(Ok(()), TestServersGuard::release);
    // A process ended by a signal has no exit code, but still counts as a failure.
    let code = tested?.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    released?;
    let verdict = match (code, notes.is_empty()) {
        (0, true) => "every test passed",
        (0, false) => "every test that was run passed",
        _ => "the tests FAILED",
    };
    println!("{verdict} after {} s", start.elapsed().as_secs());
    notes.iter().for_each(|note| println!("{note}"));
    Ok(ExitCode::from(code))
}
