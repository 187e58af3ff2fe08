//! What holds for every server, shown with the one that starts quickest.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, stdin};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use onceward_local_brokers::{Error, Redis, RedisPrograms, find_detached, stop_detached};

use crate::redis::ask;
use crate::support::{Scratch, programs, someone_works_in, until};

#[test]
fn a_stopped_server_comes_back_with_its_data_at_the_same_place() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let scratch = Scratch::new();
    let mut server = Redis::start(&programs, &scratch.join("a folder, with spaces")).unwrap();
    let (url, pid) = (server.url(), server.pid());
    assert_eq!(ask(&server, "SET kept 42", "+OK\r\n"), "+OK\r\n");
    server.stop().unwrap();
    server.stop().unwrap();
    assert_eq!((server.is_running(), server.pid()), (false, None));
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    assert_eq!(ask(&server, "GET kept", "$2\r\n42\r\n"), "$2\r\n42\r\n");
}

#[test]
fn a_second_owner_is_refused_by_name() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let scratch = Scratch::new();
    let folder = scratch.join("redis");
    let first = Redis::start(&programs, &folder).unwrap();
    let error = Redis::start(&programs, &folder).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert!(matches!(stop_detached(&folder), Err(Error::InUse { .. })));
    assert!(first.is_running());
}

#[test]
fn a_detached_server_is_found_used_and_stopped() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let scratch = Scratch::new();
    let folder = scratch.join("redis");
    assert!(find_detached(&folder).unwrap().is_none());
    stop_detached(&folder).unwrap();
    let server = Redis::start(&programs, &folder).unwrap();
    let (url, pid) = (server.url(), server.pid());
    drop(server.detach().expect("it runs"));
    let found = find_detached(&folder).unwrap().expect("it still runs");
    assert_eq!((found.url(), Some(found.pid())), (url.as_str(), pid));
    assert_eq!(fs::metadata(folder.join("running")).unwrap().mode() & 0o077, 0, "others can read the password");
    stop_detached(&folder).unwrap();
    assert!(find_detached(&folder).unwrap().is_none());
    assert!(!someone_works_in(&folder));
}

#[test]
fn a_server_without_an_owner_is_replaced_by_the_next_start() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let scratch = Scratch::new();
    let folder = scratch.join("redis");
    let orphan = Redis::start(&programs, &folder).unwrap().detach().expect("it runs").pid();
    let server = Redis::start(&programs, &folder).unwrap();
    assert_ne!(server.pid(), Some(orphan));
    assert_eq!(ask(&server, "PING", "+PONG\r\n"), "+PONG\r\n");
}

#[test]
fn a_stranger_that_was_given_the_servers_old_number_is_left_alone() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let scratch = Scratch::new();
    let folder = scratch.join("redis");
    let pid = Redis::start(&programs, &folder).unwrap().detach().expect("it runs").pid();
    let note = fs::read_to_string(folder.join("running")).unwrap();
    stop_detached(&folder).unwrap();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let number = |pid: u32| format!(" {pid}");
    fs::write(folder.join("running"), note.replace(&number(pid), &number(stranger.id()))).unwrap();
    assert!(find_detached(&folder).unwrap().is_none());
    drop(Redis::start(&programs, &folder).unwrap());
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger was killed");
    stranger.kill().and_then(|()| stranger.wait()).unwrap();
}

#[test]
fn dropping_a_temporary_server_leaves_neither_process_nor_folder() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let server = Redis::temporary(&programs).unwrap();
    let folder = server.folder().to_path_buf();
    assert!(someone_works_in(&folder));
    drop(server);
    assert!(!someone_works_in(&folder));
    assert!(!folder.exists());
}

#[test]
fn the_owners_sudden_death_ends_the_server_and_its_temporary_folder() {
    const OWNER: &str = "ONCEWARD_TEST_IS_OWNER";
    let Some(programs) = programs::<RedisPrograms>() else { return };
    if env::var_os(OWNER).is_some() {
        let server = Redis::temporary(&programs).unwrap();
        println!("\nfolder={}", server.folder().display());
        let _ = stdin().read(&mut [0]);
        return;
    }
    let this_test = "lifecycle::the_owners_sudden_death_ends_the_server_and_its_temporary_folder";
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
    assert!(someone_works_in(&folder));
    owner.kill().and_then(|()| owner.wait()).unwrap();
    until("the server ends", || !someone_works_in(&folder));
    until("its folder goes", || !folder.exists());
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let scratch = Scratch::new();
    let folder = scratch.join("redis");
    drop(Redis::start(&programs, &folder).unwrap());
    let manifest = folder.join("data/appendonlydir/appendonly.aof.manifest");
    assert!(manifest.exists(), "this test spoils the data, and that has moved");
    fs::write(manifest, "nonsense\n").unwrap();
    let error = Redis::start(&programs, &folder).unwrap_err().to_string();
    assert!(error.contains("Redis ended while starting") && error.contains("manifest"), "{error}");
    assert!(error.contains(&folder.canonicalize().unwrap().join("log").display().to_string()), "{error}");
}

#[test]
fn no_password_is_shown() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let scratch = Scratch::new();
    let server = Redis::start(&programs, &scratch.join("redis")).unwrap();
    let password = crate::support::password(&server.url());
    assert!(!format!("{server:?}").contains(&password));
    let detached = server.detach().expect("it runs");
    assert!(!format!("{detached:?}").contains(&password));
    stop_detached(&scratch.join("redis")).unwrap();
}
