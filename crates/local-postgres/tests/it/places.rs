//! Where the data, the socket and the port end up.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use onceward_local_postgres::{Cluster, ClusterOptions};

use crate::support::{Scratch, ask, options, programs, start};

#[test]
fn a_path_too_long_for_a_socket_gets_a_short_socket_folder() {
    let scratch = Scratch::new();
    let data = scratch.join(&"a-long-name-".repeat(12));
    let cluster = start(&data);
    assert!(!cluster.socket_dir().starts_with(&data));
    assert_eq!(ask(&cluster.url("postgres"), "SELECT 1"), "1");
    let socket_dir = cluster.socket_dir().to_path_buf();
    drop(cluster);
    fs::remove_dir(socket_dir).unwrap();
}

#[test]
fn a_path_with_spaces_and_quotes_works() {
    let scratch = Scratch::new();
    let cluster = start(&scratch.join("it's a \"data\" folder, é"));
    assert_eq!(ask(&cluster.url("postgres"), "SELECT 1"), "1");
    let socket_dir = cluster.socket_dir().to_path_buf();
    drop(cluster);
    fs::remove_dir(socket_dir).unwrap();
}

#[test]
fn the_socket_folder_is_closed_to_others_and_there_is_no_tcp_port() {
    let scratch = Scratch::new();
    let cluster = start(&scratch.join("data"));
    let metadata = fs::metadata(cluster.socket_dir()).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o700);
    assert_eq!(ask(&cluster.url("postgres"), "SHOW listen_addresses"), "");
    assert_ne!(metadata.uid(), 0, "the server must not run as root");
}

#[test]
fn a_loopback_port_wants_the_password_that_the_url_carries() {
    let scratch = Scratch::new();
    let options = ClusterOptions { port: Some(0), ..options() };
    let cluster = Cluster::start(&programs(), &scratch.join("data"), options).unwrap();
    let url = cluster.url("postgres");
    assert!(url.contains(&format!("@127.0.0.1:{}/", cluster.port())), "{url}");
    assert_eq!(ask(&url, "SELECT inet_server_port()"), cluster.port().to_string());
    let rules = "SELECT DISTINCT auth_method FROM pg_hba_file_rules WHERE type = 'host'";
    assert_eq!(ask(&url, rules), "scram-sha-256");
}

#[test]
fn data_below_a_folder_that_the_servers_account_cannot_enter_is_kept_in_the_same_other_place_each_time() {
    let scratch = Scratch::new();
    let closed = scratch.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let data = closed.join("data");
    let cluster = start(&data);
    let place = cluster.data_dir().to_path_buf();
    ask(&cluster.url("postgres"), "CREATE TABLE kept AS SELECT 42 AS answer");
    drop(cluster);
    let cluster = start(&data);
    assert_eq!(cluster.data_dir(), place);
    assert_eq!(ask(&cluster.url("postgres"), "SELECT answer FROM kept"), "42");
    let started_by_root = fs::metadata(&closed).unwrap().uid() == 0;
    assert_eq!(place.starts_with("/var/tmp"), started_by_root);
    drop(cluster);
    if started_by_root {
        fs::remove_dir_all(place).unwrap();
    }
}
