//! A crash of the program or of its server is recovered at the next start.

use crate::{
    order_load::OrderLoad,
    support::{Scratch, UpServer, send_signal},
    up::has_running_process_in,
};
use onceward_testkit::eventually;
use std::fs;

#[tokio::test]
async fn up_recovers_when_onceward_was_killed_and_its_postgres_was_orphaned() {
    let scratch = Scratch::new();
    let mut first = UpServer::start(&scratch, &[]).await;
    let path = first.place_order("before").await;
    let orphan = first.postmaster();
    assert!(!first.process.stop_with("KILL").await.success());

    let mut second = UpServer::start(&scratch, &[]).await;
    assert_ne!(second.postmaster(), orphan, "the orphan was replaced");
    assert_eq!(second.get(&path).await.1["status"], "reserved");
    second.place_order("after").await;
    assert!(second.process.stop_with("INT").await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_killed_under_load_is_restarted_and_no_accepted_order_is_lost() {
    const KILLS: usize = 3;
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    let load = OrderLoad::start(&up);
    for earlier in 0..KILLS {
        load.wait_for_accepted().await;
        let killed = up.postmaster();
        send_signal("KILL", &killed);
        eventually("the log reports the restart", || async {
            (restart_pauses(&scratch).len() > earlier).then_some(())
        })
        .await;
        assert_eq!(up.get("/health/live").await.0, 200);
        eventually("it is ready again without help", || async {
            (up.get("/health/ready").await.0 == 200).then_some(())
        })
        .await;
        assert_ne!(up.postmaster(), killed);
    }
    load.wait_for_accepted().await;
    let accepted = load.stop().await;
    for path in &accepted {
        up.wait_until_reserved(path).await;
    }
    let orders = up.owner().await.query_one("SELECT count(*) FROM orders.customer_order", &[]).await.expect("a count");
    let reserved = "SELECT count(*) FROM orders.customer_order WHERE status = 'reserved'";
    assert!(orders.get::<_, i64>(0) >= accepted.len() as i64, "an order whose response was lost may exist as well");
    eventually("every order is reserved", || async {
        let reserved = up.owner().await.query_one(reserved, &[]).await.ok()?;
        (reserved.get::<_, i64>(0) == orders.get::<_, i64>(0)).then_some(())
    })
    .await;
    let pauses: Vec<u64> = restart_pauses(&scratch);
    // A failed restart (on a slow machine) also doubles the next pause, so the exact times are unknown.
    assert_eq!((pauses.len(), pauses[0]), (KILLS, 0), "one log line for each kill: {pauses:?}");
    assert!(pauses.is_sorted(), "no restart waits for less time than the one before: {pauses:?}");
    assert!(up.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn readiness_names_a_postgres_that_cannot_be_restarted_until_it_can() {
    let scratch = Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    up.place_order("before").await;
    let (version, hidden) = (up.pg_dir().join("PG_VERSION"), up.pg_dir().join("PG_VERSION.hidden"));
    fs::rename(&version, &hidden).expect("the file can be renamed");
    send_signal("KILL", &up.postmaster());
    let detail = eventually("readiness names the server", || async {
        let (status, report) = up.get("/health/ready").await;
        let check = report["checks"].as_array()?.iter().find(|check| check["name"] == "postgresql")?.clone();
        let detail = check["detail"].as_str()?.to_owned();
        (status == 503 && detail.contains("cannot be restarted")).then_some(detail)
    });
    let detail = detail.await;
    assert!(detail.contains("FATAL") && detail.contains("next attempt"), "{detail}");
    fs::rename(&hidden, &version).expect("the file can be renamed");
    eventually("it is ready again without help", || async { (up.get("/health/ready").await.0 == 200).then_some(()) })
        .await;
    up.place_order("after").await;
    assert!(up.process.stop_with("INT").await.success());
}

/// Returns how long each restart waited, from the log lines about a server that ended.
fn restart_pauses(scratch: &Scratch) -> Vec<u64> {
    let log = fs::read_to_string(scratch.join("up.log")).expect("a log");
    let restarts = log.lines().filter(|line| line.contains("exited unexpectedly; restarting it"));
    restarts
        .map(|line| {
            let (_, pause) = line.split_once("restart_in_ms").expect("the line contains the pause");
            // Colour codes may separate a name from its value.
            let pause = pause.split('=').nth(1).expect("a value");
            let pause = pause.rsplit('m').next().unwrap_or(pause);
            pause.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
        })
        .collect()
}

#[tokio::test]
async fn postgres_is_stopped_when_its_onceward_process_is_aborted_or_killed() {
    for signal in ["ABRT", "KILL"] {
        let scratch = Scratch::new();
        let mut up = UpServer::start(&scratch, &[]).await;
        let pg = up.pg_dir();
        assert!(!up.process.stop_with(signal).await.success());
        eventually("no process is left", || async { (!has_running_process_in(&pg)).then_some(()) }).await;
        assert!(!pg.join("postmaster.pid").exists(), "it was shut down cleanly");
    }
}

#[tokio::test]
async fn up_recovers_when_onceward_and_postgres_were_killed() {
    let scratch = Scratch::new();
    let mut first = UpServer::start(&scratch, &[]).await;
    let path = first.place_order("before").await;
    send_signal("KILL", &first.postmaster());
    assert!(!first.process.stop_with("KILL").await.success());

    let mut second = UpServer::start(&scratch, &[]).await;
    assert_eq!(second.get(&path).await.1["status"], "reserved");
    second.place_order("after").await;
    assert!(second.process.stop_with("INT").await.success());
}
