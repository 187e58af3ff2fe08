//! A full disk is reported, leads to 503, and is recovered from without help once space is available again.

use crate::{
    order_load::OrderLoad,
    support::{UpServer, run},
};
use onceward_testkit::{SmallDisk, eventually};

/// Enough for a cluster and its first write-ahead log, and quickly filled.
const DISK_MB: u32 = 300;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_leaves_no_partial_secret_and_the_next_start_succeeds() {
    let Some(disk) = SmallDisk::mount(DISK_MB) else { return };
    disk.fill();
    let data = disk.path();
    let args = ["up", "--data", data.to_str().expect("a plain path"), "--listen", "127.0.0.1:0"];
    let refused = run(&args, &[]).await;
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{stderr}");
    assert!(stderr.contains(&format!("cannot write {}", data.join("secret").display())), "{stderr}");
    assert_eq!(stderr.matches("No space left on device").count(), 1, "{stderr}");
    let left: Vec<_> = std::fs::read_dir(&data).expect("the disk").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["filler"]);

    disk.free();
    let mut up = UpServer::start(disk.scratch(), &[]).await;
    up.place_order("k").await;
    assert!(up.process.stop_with("TERM").await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_leads_to_503_is_named_by_readiness_and_is_recovered_from() {
    let Some(disk) = SmallDisk::mount(DISK_MB) else { return };
    let mut up = UpServer::start(disk.scratch(), &[]).await;
    let load = OrderLoad::start(&up);
    load.wait_for_accepted().await;
    let detail = eventually("readiness names the full disk", || async {
        // Space that the server frees meanwhile, such as old write-ahead log, is filled too.
        disk.fill();
        let (status, report) = up.get("/health/ready").await;
        let failing = report["checks"].as_array()?.iter().filter(|check| check["ok"] == false);
        let details = failing.map(|check| check["detail"].to_string()).collect::<String>();
        (status == 503 && (details.contains("disk is full") || details.contains("No space left"))).then_some(details)
    });
    let detail = detail.await;
    assert!(!detail.contains("transaction is aborted"), "{detail}");
    load.wait_for_refused().await;

    disk.free();
    eventually("it is ready again without help", || async { (up.get("/health/ready").await.0 == 200).then_some(()) })
        .await;
    load.wait_for_accepted().await;
    let accepted = load.stop().await;
    for path in accepted {
        up.wait_until_reserved(&path).await;
    }
    assert!(up.process.stop_with("TERM").await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_leads_to_503_is_named_by_readiness_and_is_recovered_from() {
    let scratch = onceward_testkit::Scratch::new();
    let mut up = UpServer::start(&scratch, &[]).await;
    let owner = up.owner().await;
    let load = OrderLoad::start(&up);
    load.wait_for_accepted().await;
    set_read_only(&owner, "on").await;
    eventually("readiness names it", || async {
        let (status, report) = up.get("/health/ready").await;
        (status == 503 && report["checks"][0]["detail"].to_string().contains("read-only")).then_some(())
    })
    .await;
    load.wait_for_refused().await;
    set_read_only(&owner, "off").await;
    eventually("it is ready again without help", || async { (up.get("/health/ready").await.0 == 200).then_some(()) })
        .await;
    load.wait_for_accepted().await;
    for path in load.stop().await {
        up.wait_until_reserved(&path).await;
    }
    assert!(up.process.stop_with("TERM").await.success());
}

async fn set_read_only(owner: &tokio_postgres::Client, value: &str) {
    owner.batch_execute("SET default_transaction_read_only = off").await.expect("the setting applies to this session");
    let set = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
    owner.batch_execute(&set).await.expect("the superuser may do this");
    owner.batch_execute("SELECT pg_reload_conf()").await.expect("the superuser may do this");
}
