//! `cargo xtask standalone`: checks a service outside the workspace, and what it compiles.

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use crate::error::XtaskError;
use crate::workspace::{Workspace, status};

const MANIFEST: &str = "examples/standalone/Cargo.toml";
const LOCK: &str = "examples/standalone/Cargo.lock";
/// Clients of external brokers and exporters, which a service on PostgreSQL alone must not compile.
const OPTIONAL: &[&str] = &["rdkafka-sys", "rdkafka", "lapin", "redis", "opentelemetry-otlp"];

pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, XtaskError> {
    if let Some(unknown) = args.first() {
        return Err(XtaskError::Usage(format!("`cargo xtask standalone` takes no argument `{unknown}`")));
    }
    // The same versions as in the workspace; cargo removes the packages that are not needed.
    let (from, to) = (workspace.root.join("Cargo.lock"), workspace.root.join(LOCK));
    fs::copy(&from, &to).map_err(XtaskError::of(format_args!("copy {} to {}", from.display(), to.display())))?;
    let mut tree = workspace.cargo();
    tree.args(["tree", "--manifest-path", MANIFEST, "-e", "normal,build", "--prefix", "none"]);
    let output = tree.output().map_err(XtaskError::of("run cargo tree"))?;
    if !output.status.success() {
        return Err(XtaskError::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let found = optional_packages(&String::from_utf8_lossy(&output.stdout));
    if !found.is_empty() {
        return Err(XtaskError::Failed(format!(
            "{MANIFEST} compiles {}; make them optional in the platform's packages",
            found.join(", ")
        )));
    }
    let started = Instant::now();
    let mut build = workspace.cargo();
    build.args(["check", "--manifest-path", MANIFEST, "--target-dir"]).arg(workspace.target().join("standalone"));
    if !status(&mut build)?.success() {
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "a service outside the workspace was checked in {} s, without a broker client",
        started.elapsed().as_secs()
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the optional packages in the output of `cargo tree`.
fn optional_packages(tree: &str) -> Vec<&'static str> {
    let compiled = |name: &&&str| tree.lines().any(|line| line.split(' ').next() == Some(**name));
    OPTIONAL.iter().filter(compiled).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_client_is_found_by_its_whole_name() {
        assert_eq!(optional_packages("signups v0.1.0\nredis v1.8.1\nlapin-like v1.0.0\n"), ["redis"]);
        assert_eq!(optional_packages("signups v0.1.0\nserde v1.0.0\n"), [""; 0]);
    }
}
