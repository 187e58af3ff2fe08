//! Installing Debian packages, without ever starting a system server by the way.

mod admin;
mod needs;
mod no_main_cluster;
mod no_services;

use std::env;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::services;
use crate::workspace::Workspace;
use admin::Admin;
use no_main_cluster::NoMainCluster;
use no_services::NoServices;

pub(crate) use needs::{BROWSER, BUILD_TOOLS, JAVA, MAVEN, Need, POSTGRES, PROMTOOL, RABBITMQ, REDIS};

/// `cargo xtask install`
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Result<ExitCode, Failure> {
    if let Some(arg) = args.first() {
        return Err(Failure::Usage(format!("`install` takes no arguments, and was given `{arg}`")));
    }
    ensure(&[&BUILD_TOOLS, &PROMTOOL, &BROWSER])?;
    let notes = services::install(workspace)?;
    println!("what building and testing need is there");
    notes.iter().for_each(|note| println!("{note}"));
    Ok(ExitCode::SUCCESS)
}

/// Installs what is missing. Quick, and without a call of apt-get, when everything is there.
pub(crate) fn ensure(needs: &[&Need]) -> Result<(), Failure> {
    let failed = |need: &Need| (need.check)().err();
    let mut missing: Vec<(&Need, String)> = needs.iter().filter_map(|need| Some((*need, failed(need)?))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if let Some((_, reason)) = missing.iter().find(|(need, _)| is_named(need)) {
        return Err(Failure::Failed(reason.clone()));
    }
    if let Some(admin) = Admin::find() {
        install(&admin, &missing.iter().map(|(need, _)| *need).collect::<Vec<_>>())?;
        return missing.iter().try_for_each(|(need, _)| (need.check)().map_err(Failure::Failed));
    }
    missing.retain(|(need, reason)| {
        if !need.certain {
            eprintln!("the build may fail: {reason}");
        }
        need.certain
    });
    let reasons: Vec<String> = missing.into_iter().map(|(_, reason)| reason).collect();
    if reasons.is_empty() { Ok(()) } else { Err(Failure::Failed(reasons.join("\n"))) }
}

/// What the user has named himself is not replaced by a package.
fn is_named(need: &Need) -> bool {
    need.named_by.is_some_and(|variable| env::var_os(variable).is_some_and(|value| !value.is_empty()))
}

fn install(admin: &Admin, needs: &[&Need]) -> Result<(), Failure> {
    let packages: Vec<&str> = needs.iter().flat_map(|need| need.packages).copied().collect();
    let units: Vec<&str> = needs.iter().flat_map(|need| need.units).copied().collect();
    eprintln!("installing Debian packages: {}", packages.join(" "));
    let no_main_cluster = packages.contains(&"postgresql").then(|| NoMainCluster::set(admin)).transpose()?;
    let installed = NoServices::set(admin, &units).and_then(|no_services| {
        let installed = admin.install(&packages);
        no_services.lift()?;
        installed
    });
    no_main_cluster.map_or(Ok(()), NoMainCluster::lift)?;
    installed
}
