//! Where the data, the socket and the port are placed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use onceward_local_postgres::{Cluster, ClusterOptions, LocalPostgresError, running_url};

use crate::support::{TempFolder, options, programs, query, start};

#[test]
fn a_path_too_long_for_a_socket_gets_a_short_socket_folder() {
    let temp = TempFolder::new();
    let data = temp.join(&"a-long-name-".repeat(12));
    let cluster = start(&data);
    assert!(!cluster.socket_dir().starts_with(&data));
    assert_eq!(query(&cluster.url("postgres"), "SELECT 1"), "1");
    let socket_dir = cluster.socket_dir().to_path_buf();
    drop(cluster);
    fs::remove_dir(socket_dir).unwrap();
}

#[test]
fn a_path_with_spaces_and_quotes_works() {
    let temp = TempFolder::new();
    let cluster = start(&temp.join("it's a \"data\" folder, é"));
    assert_eq!(query(&cluster.url("postgres"), "SELECT 1"), "1");
    let socket_dir = cluster.socket_dir().to_path_buf();
    drop(cluster);
    fs::remove_dir(socket_dir).unwrap();
}

#[test]
fn the_socket_folder_is_closed_to_others_and_there_is_no_tcp_port() {
    let temp = TempFolder::new();
    let cluster = start(&temp.join("data"));
    let metadata = fs::metadata(cluster.socket_dir()).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o700);
    assert_eq!(query(&cluster.url("postgres"), "SHOW listen_addresses"), "");
    assert_ne!(metadata.uid(), 0, "the server must not run as root");
}

#[test]
fn a_loopback_port_requires_the_password_in_the_url() {
    let temp = TempFolder::new();
    let options = ClusterOptions { port: Some(0), ..options() };
    let cluster = Cluster::start(&programs(), &temp.join("data"), options).unwrap();
    let url = cluster.url("postgres");
    assert!(url.contains(&format!("@127.0.0.1:{}/", cluster.port())), "{url}");
    assert_eq!(query(&url, "SELECT inet_server_port()"), cluster.port().to_string());
    let rules = "SELECT DISTINCT auth_method FROM pg_hba_file_rules WHERE type = 'host'";
    assert_eq!(query(&url, rules), "scram-sha-256");
}

#[test]
fn data_below_a_folder_that_the_servers_account_cannot_enter_is_kept_in_one_fallback_folder() {
    let temp = TempFolder::new();
    let closed = temp.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let data = closed.join("data");
    let cluster = start(&data);
    let fallback = cluster.data_dir().to_path_buf();
    assert_eq!(running_url(&data, "postgres"), Some(cluster.url("postgres")), "commands find the running server");
    query(&cluster.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer");
    drop(cluster);
    let cluster = start(&data);
    assert_eq!(cluster.data_dir(), fallback);
    assert_eq!(query(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
    drop(cluster);
    // Opening the folder must not make the data seem lost.
    fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    let cluster = start(&data);
    assert_eq!(query(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
    let started_by_root = fs::metadata(&closed).unwrap().uid() == 0;
    assert_eq!(fallback.starts_with("/var/lib/onceward"), started_by_root);
    assert_eq!(cluster.closed_folder().is_some(), started_by_root);
    drop(cluster);
    if started_by_root {
        fs::remove_dir_all(fallback).unwrap();
    }
}

#[test]
fn a_cluster_of_root_in_the_fallback_folder_of_older_releases_is_used_there() {
    let temp = TempFolder::new();
    let closed = temp.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    if fs::metadata(&closed).unwrap().uid() != 0 {
        return; // Only root keeps clusters elsewhere.
    }
    let data = closed.join("data");
    let cluster = start(&data);
    query(&cluster.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer");
    let fallback = cluster.data_dir().to_path_buf();
    drop(cluster);
    let old_fallback =
        Path::new("/var/tmp").join(format!("onceward-{}", fallback.file_name().unwrap().to_str().unwrap()));
    assert!(Command::new("mv").arg(&fallback).arg(&old_fallback).status().unwrap().success());

    let cluster = start(&data);
    assert_eq!(cluster.data_dir(), old_fallback);
    assert_eq!(query(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
    assert_eq!(running_url(&data, "postgres"), Some(cluster.url("postgres")));
    drop(cluster);

    // A folder that another account prepared in /var/tmp is not mistaken for root's.
    chown(&old_fallback, Some(65_534), None).unwrap();
    let cluster = start(&data);
    assert_eq!(cluster.data_dir(), fallback);
    drop(cluster);
    fs::remove_dir_all(old_fallback).unwrap();
    fs::remove_dir_all(fallback).unwrap();
}

#[test]
fn a_data_folder_that_is_a_file_is_reported_with_advice() {
    let temp = TempFolder::new();
    let data = temp.join("data");
    fs::write(&data, "a file").unwrap();
    let error = Cluster::start(&programs(), &data, options()).unwrap_err();
    assert!(matches!(error, LocalPostgresError::NotAFolder { .. }), "{error}");
    assert!(error.to_string().contains(&format!("{} is a file", data.display())), "{error}");
    assert_eq!(fs::read_to_string(&data).unwrap(), "a file", "it is left as it was");
}
