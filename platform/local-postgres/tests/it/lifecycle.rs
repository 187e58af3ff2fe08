//! Start, stop, crash, orphan, second owner.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use onceward_local_postgres::{Cluster, ClusterOptions, DetachedCluster, LocalPostgresError, ShutdownMode};

use crate::support::{TempFolder, options, programs, query, start};

#[test]
fn a_second_start_continues_with_the_data() {
    let temp = TempFolder::new();
    let data = temp.join("data");
    let mut cluster = start(&data);
    query(&cluster.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer");
    cluster.stop(ShutdownMode::Fast).unwrap();
    assert_eq!(cluster.pid(), None);
    drop(cluster);

    let cluster = start(&data);
    assert_eq!(query(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
}

#[test]
fn committed_data_survives_a_killed_server() {
    let temp = TempFolder::new();
    let mut cluster = start(&temp.join("data"));
    query(&cluster.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer");
    cluster.kill().unwrap();
    assert!(!cluster.is_running());
    cluster.restart().unwrap();
    assert_eq!(query(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
}

#[test]
fn an_immediate_stop_is_recovered_by_a_restart() {
    let temp = TempFolder::new();
    let mut cluster = start(&temp.join("data"));
    let first = cluster.pid();
    cluster.stop(ShutdownMode::Immediate).unwrap();
    cluster.restart().unwrap();
    assert_ne!(cluster.pid(), first);
    assert_eq!(query(&cluster.url("postgres"), "SELECT 1"), "1");
}

#[test]
fn a_server_whose_owner_is_gone_is_replaced() {
    let temp = TempFolder::new();
    let data = temp.join("data");
    // Detaching leaves the same state as a killed owner: a running server and no lock.
    let orphan = start(&data).detach().expect("the server is running");
    let cluster = start(&data);
    assert_ne!(cluster.pid(), Some(orphan.pid()));
    assert_eq!(query(&cluster.url("postgres"), "SELECT 1"), "1");
}

#[test]
fn a_stale_pid_that_now_belongs_to_another_process_does_not_prevent_the_start() {
    let temp = TempFolder::new();
    let data = temp.join("data");
    let mut cluster = start(&data);
    cluster.kill().unwrap();
    let pid_file = cluster.data_dir().join("pg/postmaster.pid");
    let text = fs::read_to_string(&pid_file).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    // The reused pid belongs to a process of the same account; with another account, PostgreSQL would not even check.
    let account = fs::metadata(&pid_file).unwrap().uid();
    let mut other = Command::new("sleep").arg("600").uid(account).spawn().unwrap();
    fs::write(&pid_file, format!("{}\n{rest}", other.id())).unwrap();
    drop(cluster);
    let started = Cluster::start(&programs(), &data, options());
    other.kill().and_then(|()| other.wait()).unwrap();
    assert_eq!(query(&started.unwrap().url("postgres"), "SELECT 1"), "1");
}

#[test]
fn a_second_owner_is_refused() {
    let temp = TempFolder::new();
    let data = temp.join("data");
    let _first = start(&data);
    let error = Cluster::start(&programs(), &data, options()).unwrap_err();
    assert!(matches!(error, LocalPostgresError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another running process"));
}

#[test]
fn a_detached_server_is_found_and_stopped() {
    let temp = TempFolder::new();
    let data = temp.join("data");
    assert!(DetachedCluster::find(&programs(), &data).unwrap().is_none());
    let pid = start(&data).detach().expect("the server is running").pid();
    let found = DetachedCluster::find(&programs(), &data).unwrap().expect("the server is still running");
    assert_eq!(found.pid(), pid);
    assert_eq!(query(&found.url("postgres"), "SELECT 1"), "1");
    found.stop(ShutdownMode::Fast).unwrap();
    assert!(DetachedCluster::find(&programs(), &data).unwrap().is_none());
}

#[test]
fn dropping_the_cluster_stops_the_server() {
    let temp = TempFolder::new();
    let data = temp.join("data");
    drop(start(&data));
    assert!(DetachedCluster::find(&programs(), &data).unwrap().is_none());
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let temp = TempFolder::new();
    let settings = vec![("shared_buffers".to_owned(), "plenty".to_owned())];
    let options = ClusterOptions { settings, port: None };
    let error = Cluster::start(&programs(), &temp.join("data"), options).unwrap_err();
    assert!(error.to_string().contains("invalid value for parameter \"shared_buffers\""), "{error}");
}

#[test]
fn a_server_that_was_killed_from_outside_reports_how_it_ended_and_can_be_restarted() {
    let temp = TempFolder::new();
    let mut cluster = start(&temp.join("data"));
    assert_eq!(cluster.ended(), None);
    let pid = cluster.pid().unwrap().to_string();
    assert!(Command::new("sh").args(["-c", "kill -s KILL \"$1\"", "sh", &pid]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        if let Some(ended) = cluster.ended() {
            break ended;
        }
        assert!(Instant::now() < deadline, "its end is noticed");
        thread::yield_now();
    };
    assert!(ended.contains("SIGKILL"), "{ended}");
    cluster.restart().unwrap();
    assert_eq!(cluster.ended(), None);
    assert_eq!(query(&cluster.url("postgres"), "SELECT 1"), "1");
    cluster.stop(ShutdownMode::Fast).unwrap();
    assert_eq!(cluster.ended(), None, "it was stopped, so it did not end by itself");
}
