//! `onceward up`: everything on one machine, from nothing.

use crate::support::{Scratch, Up, migrated_database, run};
use std::{fs, path::Path, process::Command};

/// Whether any process has this folder as its working folder, as every process of its PostgreSQL does.
fn someone_works_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
}

#[tokio::test]
async fn up_prints_how_to_call_it_and_the_printed_call_works() {
    let scratch = Scratch::new();
    let mut up = Up::start(&scratch, &[]).await;
    assert_eq!(up.tenant, "demo");
    assert_eq!(up.get("/health/ready").await.0, 200);

    let output = Command::new("sh").args(["-c", &up.curl]).output().expect("sh can be run");
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {}", up.curl, String::from_utf8_lossy(&output.stderr));
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).expect("a 202 says where to look");
    up.wait_until_reserved(location.trim()).await;
    assert!(up.process.end_by("INT").await.success());
}

#[tokio::test]
async fn ctrl_c_and_sigterm_stop_everything_and_the_next_up_continues_with_the_data() {
    let scratch = Scratch::new();
    let mut paths: Vec<String> = Vec::new();
    for (number, signal) in ["INT", "TERM"].into_iter().enumerate() {
        let mut up = Up::start(&scratch, &[]).await;
        let pg = up.pg_dir();
        for path in &paths {
            assert_eq!(up.get(path).await.1["status"], "reserved", "the order is still there");
        }
        paths.push(up.place_order(&format!("order-{number}")).await);
        assert!(up.process.end_by(signal).await.success());
        assert!(!pg.join("postmaster.pid").exists(), "PostgreSQL was stopped in order");
        assert!(!someone_works_in(&pg), "no process is left");
    }
}

#[tokio::test]
async fn a_token_of_an_earlier_up_is_still_good_after_a_restart() {
    let scratch = Scratch::new();
    let mut first = Up::start(&scratch, &[]).await;
    let path = first.place_order("k").await;
    assert!(first.process.end_by("INT").await.success());
    let mut second = Up::start(&scratch, &[]).await;
    second.token = first.token;
    assert_eq!(second.get(&path).await.0, 200);
    assert!(second.process.end_by("INT").await.success());
}

#[tokio::test]
async fn database_url_replaces_the_private_cluster() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let mut up = Up::start(&scratch, &[("DATABASE_URL", &database.url())]).await;
    up.place_order("k").await;
    assert!(!scratch.join("data").join("pg").exists(), "no cluster was made");
    assert!(!up.printed.contains("database"), "the URL of a database that is not ours is not printed");
    assert!(up.process.end_by("TERM").await.success());
    let orders = database.owner().await.query_one("SELECT count(*) FROM orders.customer_order", &[]).await.unwrap();
    assert_eq!(orders.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn a_second_up_on_the_same_data_says_that_it_is_in_use() {
    let scratch = Scratch::new();
    let mut up = Up::start(&scratch, &[]).await;
    let data = scratch.join("data");
    let second = run(&["up", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"], &[]).await;
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use"), "{second:?}");
    assert_eq!(up.get("/health/ready").await.0, 200, "the first one is not disturbed");
    assert!(up.process.end_by("INT").await.success());
}
