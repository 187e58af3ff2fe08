//! `onceward up`: everything on one machine, starting from nothing.

use crate::support::{Process, Scratch, UpServer, http, migrated_database, run};
use onceward_testkit::{HttpResponse, eventually};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

/// Returns whether any process has this folder as its working folder, as every process of its PostgreSQL does.
pub fn has_running_process_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
}

#[tokio::test]
async fn up_prints_how_to_call_it_and_the_printed_call_works() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    assert_eq!(up.tenant, "demo");
    assert_eq!(up.get("/health/ready").await.0, 200);

    let output = Command::new("sh").args(["-c", &up.curl]).env("TOKEN", &up.token).output().expect("sh can be run");
    let response = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {}", up.curl, String::from_utf8_lossy(&output.stderr));
    assert!(response.starts_with("HTTP/1.1 202"), "{response}");
    let location = response.lines().find_map(|line| line.strip_prefix("location: ")).expect("a 202 has a location");
    up.wait_until_reserved(location.trim()).await;
    assert!(up.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn ctrl_c_and_sigterm_stop_everything_and_the_next_up_continues_with_the_data() {
    let scratch = Scratch::new();
    let mut paths: Vec<String> = Vec::new();
    for (number, signal) in ["INT", "TERM"].into_iter().enumerate() {
        let mut up = UpServer::start(&scratch, &[]).await;
        let pg = up.pg_dir();
        for path in &paths {
            assert_eq!(up.get(path).await.1["status"], "reserved", "the order still exists");
        }
        paths.push(up.place_order(&format!("order-{number}")).await);
        assert!(up.process.stop_with(signal).await.success());
        assert!(!pg.join("postmaster.pid").exists(), "PostgreSQL was stopped cleanly");
        assert!(!has_running_process_in(&pg), "no process is left");
    }
}

#[tokio::test]
async fn a_token_is_still_valid_after_a_restart() {
    let scratch = Scratch::new();
    let mut first = UpServer::start(&scratch, &[]).await;
    let path = first.place_order("k").await;
    assert!(first.process.stop_with("INT").await.success());
    let mut second = UpServer::start(&scratch, &[]).await;
    second.token = first.token;
    assert_eq!(second.get(&path).await.0, 200);
    assert!(second.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn database_url_replaces_the_private_cluster() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let mut up = UpServer::start(&scratch, &[("DATABASE_URL", &database.url())]).await;
    up.place_order("k").await;
    assert!(!scratch.join("data").join("pg").exists(), "no cluster was created");
    assert!(!up.stdout.contains("database"), "the URL of a database that is not ours is not printed");
    assert!(up.process.stop_with("TERM").await.success());
    let orders = database.owner().await.query_one("SELECT count(*) FROM orders.customer_order", &[]).await.unwrap();
    assert_eq!(orders.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn a_second_up_on_the_same_data_reports_that_it_is_in_use() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    let data = scratch.join("data");
    let second = run(&["up", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"], &[]).await;
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use"), "{second:?}");
    assert_eq!(up.get("/health/ready").await.0, 200, "the first one is not affected");
    assert!(up.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn up_accepts_mock_payments_and_says_so_unless_configured_otherwise() {
    for (variables, status, is_announced) in
        [(&[][..], 422, true), (&[("ONCEWARD_LENDING_MOCK_PROVIDER", "false")][..], 404, false)]
    {
        let scratch = Scratch::new();
        let mut up = UpServer::start(&scratch, variables).await;
        assert_eq!(up.stdout.contains("lending.mock_provider = true"), is_announced, "{}", up.stdout);
        let request = http().post(format!("{}/payments/intake/mock", up.url)).bearer_auth(&up.token);
        HttpResponse::to(request.json(&serde_json::json!({}))).await.with_status(status);
        assert!(up.process.stop_with("INT").await.success());
    }
}

#[tokio::test]
async fn a_data_folder_that_is_a_file_is_rejected_in_one_sentence() {
    let scratch = Scratch::new();
    let data = scratch.join("data");
    fs::write(&data, "a file").unwrap();
    let refused = run(&["up", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"], &[]).await;
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(
        stderr.contains(&format!("{} is a file, not a folder", data.display())) && stderr.contains("--data"),
        "{stderr}"
    );
}

#[tokio::test]
async fn another_data_folder_is_reported_with_the_reason() {
    let scratch = Scratch::new();
    let private = scratch.join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    if fs::metadata(&private).unwrap().uid() != 0 {
        return; // The server runs as our own account, which can enter all of our folders.
    }
    let data = private.join("data");
    let log = scratch.join("up.log");
    let args = ["up", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let mut process = Process::start(&args, &[], &log);
    let folder = eventually("the log names the data folder", || async {
        let log = fs::read_to_string(&log).ok()?;
        let line = log.lines().find_map(|line| line.strip_prefix("the data is stored in "))?.to_owned();
        assert!(line.contains(&format!("cannot access {}", data.display())) && line.contains("--data"), "{line}");
        Some(line.split(',').next()?.to_owned())
    })
    .await;
    assert!(folder.starts_with("/var/lib/onceward/"), "{folder}");
    assert!(process.stop_with("TERM").await.success());
    fs::remove_dir_all(folder).unwrap();
}
