//! Start, stop, crash, orphan, second owner.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use onceward_local_postgres::{Cluster, ClusterOptions, Detached, Error, Shutdown};

use crate::support::{Scratch, ask, options, programs, start};

#[test]
fn a_second_start_continues_with_the_data() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    let mut cluster = start(&data);
    ask(&cluster.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer");
    cluster.stop(Shutdown::Fast).unwrap();
    assert_eq!(cluster.pid(), None);
    drop(cluster);

    let cluster = start(&data);
    assert_eq!(ask(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
}

#[test]
fn committed_data_survives_a_killed_server() {
    let scratch = Scratch::new();
    let mut cluster = start(&scratch.join("data"));
    ask(&cluster.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer");
    cluster.kill().unwrap();
    assert!(!cluster.is_running());
    cluster.restart().unwrap();
    assert_eq!(ask(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
}

#[test]
fn an_immediate_stop_is_recovered_by_a_restart() {
    let scratch = Scratch::new();
    let mut cluster = start(&scratch.join("data"));
    let first = cluster.pid();
    cluster.stop(Shutdown::Immediate).unwrap();
    cluster.restart().unwrap();
    assert_ne!(cluster.pid(), first);
    assert_eq!(ask(&cluster.url("postgres"), "SELECT 1"), "1");
}

#[test]
fn a_server_whose_owner_is_gone_is_replaced() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    // Detaching leaves what a killed owner leaves: a live server and no lock.
    let orphan = start(&data).detach().expect("it runs");
    let cluster = start(&data);
    assert_ne!(cluster.pid(), Some(orphan.pid()));
    assert_eq!(ask(&cluster.url("postgres"), "SELECT 1"), "1");
}

#[test]
fn a_stale_pid_that_now_belongs_to_another_process_does_not_prevent_the_start() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    let mut cluster = start(&data);
    cluster.kill().unwrap();
    let pid_file = cluster.data_dir().join("pg/postmaster.pid");
    let text = fs::read_to_string(&pid_file).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    // A stranger of the same account was given the number; of another one, PostgreSQL would not even ask.
    let account = fs::metadata(&pid_file).unwrap().uid();
    let mut stranger = Command::new("sleep").arg("600").uid(account).spawn().unwrap();
    fs::write(&pid_file, format!("{}\n{rest}", stranger.id())).unwrap();
    drop(cluster);
    let started = Cluster::start(&programs(), &data, options());
    stranger.kill().and_then(|()| stranger.wait()).unwrap();
    assert_eq!(ask(&started.unwrap().url("postgres"), "SELECT 1"), "1");
}

#[test]
fn a_second_owner_is_refused_by_name() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    let _first = start(&data);
    let error = Cluster::start(&programs(), &data, options()).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another running process"));
}

#[test]
fn a_detached_server_is_found_and_stopped() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    assert!(Detached::find(&programs(), &data).unwrap().is_none());
    let pid = start(&data).detach().expect("it runs").pid();
    let found = Detached::find(&programs(), &data).unwrap().expect("it still runs");
    assert_eq!(found.pid(), pid);
    assert_eq!(ask(&found.url("postgres"), "SELECT 1"), "1");
    found.stop(Shutdown::Fast).unwrap();
    assert!(Detached::find(&programs(), &data).unwrap().is_none());
}

#[test]
fn dropping_the_cluster_stops_the_server() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    drop(start(&data));
    assert!(Detached::find(&programs(), &data).unwrap().is_none());
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let scratch = Scratch::new();
    let settings = vec![("shared_buffers".to_owned(), "plenty".to_owned())];
    let options = ClusterOptions { settings, port: None };
    let error = Cluster::start(&programs(), &scratch.join("data"), options).unwrap_err();
    assert!(error.to_string().contains("invalid value for parameter \"shared_buffers\""), "{error}");
}
