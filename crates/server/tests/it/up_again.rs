//! A crash of either side is recovered at the next start.

use crate::support::{Scratch, Up, send};
use onceward_testkit::eventually;

#[tokio::test]
async fn up_recovers_when_onceward_was_killed_and_its_postgres_was_orphaned() {
    let scratch = Scratch::new();
    let mut first = Up::start(&scratch, &[]).await;
    let path = first.place_order("before").await;
    let orphan = first.postmaster();
    assert!(!first.process.end_by("KILL").await.success());

    let mut second = Up::start(&scratch, &[]).await;
    assert_ne!(second.postmaster(), orphan, "the orphan was replaced");
    assert_eq!(second.get(&path).await.1["status"], "reserved");
    second.place_order("after").await;
    assert!(second.process.end_by("INT").await.success());
}

#[tokio::test]
async fn up_recovers_when_its_postgres_was_killed() {
    let scratch = Scratch::new();
    let mut first = Up::start(&scratch, &[]).await;
    let path = first.place_order("before").await;
    send("KILL", &first.postmaster());
    let detail = eventually("readiness notices", || async {
        let (status, report) = first.get("/health/ready").await;
        (status == 503).then(|| report["checks"][0].clone())
    });
    assert_eq!(detail.await["name"], "database");
    assert_eq!(first.get("/health/live").await.0, 200);
    assert!(first.process.end_by("INT").await.success(), "there is nothing to stop, which is fine");

    let mut second = Up::start(&scratch, &[]).await;
    assert_eq!(second.get(&path).await.1["status"], "reserved");
    second.place_order("after").await;
    assert!(second.process.end_by("INT").await.success());
}

#[tokio::test]
async fn up_recovers_when_both_sides_were_killed() {
    let scratch = Scratch::new();
    let mut first = Up::start(&scratch, &[]).await;
    let path = first.place_order("before").await;
    send("KILL", &first.postmaster());
    assert!(!first.process.end_by("KILL").await.success());

    let mut second = Up::start(&scratch, &[]).await;
    assert_eq!(second.get(&path).await.1["status"], "reserved");
    second.place_order("after").await;
    assert!(second.process.end_by("INT").await.success());
}
