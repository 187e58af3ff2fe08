//! Kafka loses a group's offsets, and the inbox has expired. Still no effect happens twice.

use crate::{
    mock,
    support::{admin, server_url},
};
use onceward::{Platform, broker::BusKind};
use onceward_example_orders::service;
use onceward_testkit::{TestDb, TestPlatform, eventually};
use rdkafka::admin::AdminOptions;
use uuid::Uuid;

const QUEUE: &str = "orders.reserve.v1";
const BEFORE: i64 = 40;
const AFTER: i64 = 5;

const RESERVED_ORDERS: &str = "SELECT count(*) FROM orders.customer_order WHERE status = 'reserved'";
const RESERVED_UNITS: &str = "SELECT coalesce(sum(1000 - available), 0)::bigint FROM orders.stock";
const PLACE_ORDERS: &str = "
    WITH placed AS (
        INSERT INTO orders.customer_order (tenant_id, order_id, sku, quantity)
        SELECT 'acme', onceward.uuid_v7(), 'article-' || n % 3, 1 FROM generate_series(1, $1::bigint) AS n
        RETURNING order_id, sku)
    SELECT onceward.enqueue('acme', 'orders.events:tenant.acme.order.placed', 'order.placed.v1',
                            jsonb_build_object('orderId', order_id, 'sku', sku, 'quantity', 1), p_ordering_key => sku)
    FROM placed";

/// The orders service on Kafka, with an inbox that expires at once.
async fn orders_platform() -> TestPlatform {
    let url = server_url().await;
    let platform = Platform::assemble(vec![service()]).expect("the service fits");
    let database = TestDb::for_platform_on(&platform, BusKind::Kafka).await;
    TestPlatform::with_config(database, platform, |config| {
        config.bus.url = url;
        config.bus.namespace = format!("t{}.", Uuid::now_v7().simple());
        config.bus.heartbeat_ms = 3_000;
        config.retention.inbox_days = 0;
        config.retention.sweep_every_s = 1;
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_and_an_expired_inbox_repeat_nothing_and_skip_nothing() {
    if mock::must_skip("the mock deletes no groups") {
        return;
    }
    let mut platform = orders_platform().await;
    let owner = platform.database().owner().await;
    let count = async |statement: &str| -> i64 { owner.query_one(statement, &[]).await.expect("a count").get(0) };
    let until = async |what: &str, statement: &str, wanted: i64| {
        eventually(what, || async { (count(statement).await == wanted).then_some(()) }).await;
    };
    let place = async |orders: i64| owner.query(PLACE_ORDERS, &[&orders]).await.map(drop).expect("orders are placed");
    platform.run_relay();
    let (mut worker, stop) = platform.another_instance();
    worker.run_consumers();
    worker.run_schedules();
    place(BEFORE).await;
    until("every order is settled", RESERVED_ORDERS, BEFORE).await;
    until("the inbox has deleted them", "SELECT count(*) FROM onceward.inbox", 0).await;
    stop.cancel();
    worker.finished().await;

    // Some are published while no worker runs: they must not be skipped.
    place(AFTER).await;
    let group = format!("{}{QUEUE}", platform.config().bus.namespace);
    let admin = admin(&server_url().await);
    eventually("the group is deleted", || async {
        let deleted = admin.delete_groups(&[&group], &AdminOptions::new()).await.expect("the broker responds");
        deleted[0].is_ok().then_some(())
    })
    .await;

    let (mut worker, stop) = platform.another_instance();
    worker.run_consumers();
    until("the new orders are settled", RESERVED_ORDERS, BEFORE + AFTER).await;
    // More of the same articles: messages read again before them would have been handled by now.
    place(3).await;
    until("the last orders are settled", RESERVED_ORDERS, BEFORE + AFTER + 3).await;
    assert_eq!(count(RESERVED_UNITS).await, BEFORE + AFTER + 3, "something was reserved twice or not at all");
    stop.cancel();
    worker.finished().await;
    platform.stop().await;
}
