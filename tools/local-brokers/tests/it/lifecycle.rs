//! The lifecycle of any server, tested with Redis, which starts fastest.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use onceward_local_brokers::{LocalBrokerError, Redis, RedisPrograms, find_detached, stop_detached};

use crate::redis::request;
use crate::support::{TempFolder, has_process_in, programs, wait_until};

#[test]
fn a_restarted_server_keeps_its_data_and_url() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let mut server = Redis::start(&programs, &temp.join("a folder, with spaces")).unwrap();
    let (url, pid) = (server.url(), server.pid());
    assert_eq!(request(&server, "SET kept 42", "+OK\r\n"), "+OK\r\n");
    server.stop().unwrap();
    server.stop().unwrap();
    assert_eq!((server.is_running(), server.pid()), (false, None));
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    assert_eq!(request(&server, "GET kept", "$2\r\n42\r\n"), "$2\r\n42\r\n");
}

#[test]
fn a_folder_in_use_is_refused() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let folder = temp.join("redis");
    let first = Redis::start(&programs, &folder).unwrap();
    let error = Redis::start(&programs, &folder).unwrap_err();
    assert!(matches!(error, LocalBrokerError::InUse { .. }), "{error}");
    assert!(matches!(stop_detached(&folder), Err(LocalBrokerError::InUse { .. })));
    assert!(first.is_running());
}

#[test]
fn a_detached_server_can_be_found_and_stopped() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let folder = temp.join("redis");
    assert!(find_detached(&folder).unwrap().is_none());
    stop_detached(&folder).unwrap();
    let server = Redis::start(&programs, &folder).unwrap();
    let (url, pid) = (server.url(), server.pid());
    drop(server.detach().expect("the server is running"));
    let found = find_detached(&folder).unwrap().expect("the server is still running");
    assert_eq!((found.url(), Some(found.pid())), (url.as_str(), pid));
    assert_eq!(fs::metadata(folder.join("running")).unwrap().mode() & 0o077, 0, "others can read the password");
    stop_detached(&folder).unwrap();
    assert!(find_detached(&folder).unwrap().is_none());
    assert!(!has_process_in(&folder));
}

#[test]
fn a_server_without_an_owner_is_replaced_by_the_next_start() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let folder = temp.join("redis");
    let orphan = Redis::start(&programs, &folder).unwrap().detach().expect("the server is running").pid();
    let server = Redis::start(&programs, &folder).unwrap();
    assert_ne!(server.pid(), Some(orphan));
    assert_eq!(request(&server, "PING", "+PONG\r\n"), "+PONG\r\n");
}

#[test]
fn another_process_with_the_servers_old_pid_is_not_killed() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let folder = temp.join("redis");
    let pid = Redis::start(&programs, &folder).unwrap().detach().expect("the server is running").pid();
    let note = fs::read_to_string(folder.join("running")).unwrap();
    stop_detached(&folder).unwrap();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let number = |pid: u32| format!(" {pid}");
    fs::write(folder.join("running"), note.replace(&number(pid), &number(other.id()))).unwrap();
    assert!(find_detached(&folder).unwrap().is_none());
    drop(Redis::start(&programs, &folder).unwrap());
    assert!(other.try_wait().unwrap().is_none(), "the other process was killed");
    other.kill().and_then(|()| other.wait()).unwrap();
}

#[test]
fn dropping_a_temporary_server_leaves_neither_process_nor_folder() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let server = Redis::temporary(&programs).unwrap();
    let folder = server.folder().to_path_buf();
    assert!(has_process_in(&folder));
    drop(server);
    assert!(!has_process_in(&folder));
    assert!(!folder.exists());
}

#[test]
fn killing_the_owner_stops_the_server_and_removes_its_temporary_folder() {
    const OWNER: &str = "ONCEWARD_TEST_IS_OWNER";
    let Some(programs) = programs::<RedisPrograms>() else { return };
    if env::var_os(OWNER).is_some() {
        let server = Redis::temporary(&programs).unwrap();
        println!("\nfolder={}", server.folder().display());
        let _ = stdin().read(&mut [0]);
        return;
    }
    let this_test = "lifecycle::killing_the_owner_stops_the_server_and_removes_its_temporary_folder";
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", this_test, "--nocapture"])
        .env(OWNER, "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let folder =
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("folder=").map(std::path::PathBuf::from));
    let folder = folder.expect("the owner starts a server");
    assert!(has_process_in(&folder));
    owner.kill().and_then(|()| owner.wait()).unwrap();
    wait_until("the server ends", || !has_process_in(&folder));
    wait_until("its folder is removed", || !folder.exists());
}

#[test]
fn the_error_of_a_failed_start_shows_the_log() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let folder = temp.join("redis");
    drop(Redis::start(&programs, &folder).unwrap());
    let manifest = folder.join("data/appendonlydir/appendonly.aof.manifest");
    assert!(manifest.exists(), "the file that this test corrupts has moved");
    fs::write(manifest, "nonsense\n").unwrap();
    let error = Redis::start(&programs, &folder).unwrap_err().to_string();
    assert!(error.contains("Redis ended while starting") && error.contains("manifest"), "{error}");
    assert!(error.contains(&folder.canonicalize().unwrap().join("log").display().to_string()), "{error}");
}

#[test]
fn no_password_is_shown() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let server = Redis::start(&programs, &temp.join("redis")).unwrap();
    let password = crate::support::password(&server.url());
    assert!(!format!("{server:?}").contains(&password));
    let detached = server.detach().expect("the server is running");
    assert!(!format!("{detached:?}").contains(&password));
    stop_detached(&temp.join("redis")).unwrap();
}
