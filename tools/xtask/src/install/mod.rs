//! Installs Debian packages without ever starting a system server.

mod no_main_cluster;
mod no_services;
mod python;
mod requirements;
mod root_commands;

use std::env;
use std::process::ExitCode;

use crate::error::XtaskError;
use crate::services;
use crate::workspace::Workspace;
use no_main_cluster::NoMainCluster;
use no_services::NoServices;
use root_commands::RootCommands;

pub(crate) use python::ensure_python_packages;
pub(crate) use requirements::{
    BROWSER, BUILD_TOOLS, JAVA, MAVEN, POOLER, POSTGRES, PROMTOOL, PYTHON, RABBITMQ, REDIS, Requirement,
};

/// `cargo xtask install`
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, XtaskError> {
    if let Some(arg) = args.first() {
        return Err(XtaskError::Usage(format!("`install` takes no arguments, and was given `{arg}`")));
    }
    ensure(&[&BUILD_TOOLS, &PROMTOOL, &POOLER, &BROWSER, &PYTHON])?;
    ensure_python_packages(workspace)?;
    let notes = services::install(workspace)?;
    println!("everything that building and testing need is installed");
    notes.iter().for_each(|note| println!("{note}"));
    Ok(ExitCode::SUCCESS)
}

/// Installs whatever is missing. Returns quickly, without calling apt-get, if nothing is.
pub(crate) fn ensure(requirements: &[&Requirement]) -> Result<(), XtaskError> {
    let failed = |requirement: &Requirement| (requirement.check)().err();
    let mut missing: Vec<(&Requirement, String)> =
        requirements.iter().filter_map(|requirement| Some((*requirement, failed(requirement)?))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if let Some((_, reason)) = missing.iter().find(|(requirement, _)| is_named(requirement)) {
        return Err(XtaskError::Failed(reason.clone()));
    }
    if let Some(root) = RootCommands::find() {
        install(&root, &missing.iter().map(|(requirement, _)| *requirement).collect::<Vec<_>>())?;
        return missing.iter().try_for_each(|(requirement, _)| (requirement.check)().map_err(XtaskError::Failed));
    }
    missing.retain(|(requirement, reason)| {
        if !requirement.certain {
            eprintln!("the build may fail: {reason}");
        }
        requirement.certain
    });
    let reasons: Vec<String> = missing.into_iter().map(|(_, reason)| reason).collect();
    if reasons.is_empty() { Ok(()) } else { Err(XtaskError::Failed(reasons.join("\n"))) }
}

/// Returns whether the user has named an alternative, which no package replaces.
fn is_named(requirement: &Requirement) -> bool {
    requirement.named_by.is_some_and(|variable| env::var_os(variable).is_some_and(|value| !value.is_empty()))
}

fn install(root: &RootCommands, requirements: &[&Requirement]) -> Result<(), XtaskError> {
    let packages: Vec<&str> = requirements.iter().flat_map(|requirement| requirement.packages).copied().collect();
    let units: Vec<&str> = requirements.iter().flat_map(|requirement| requirement.units).copied().collect();
    eprintln!("installing Debian packages: {}", packages.join(" "));
    let no_main_cluster = packages.contains(&"postgresql").then(|| NoMainCluster::set(root)).transpose()?;
    let installed = NoServices::set(root, &units).and_then(|no_services| {
        let installed = root.install(&packages);
        no_services.lift()?;
        installed
    });
    no_main_cluster.map_or(Ok(()), NoMainCluster::lift)?;
    installed
}
