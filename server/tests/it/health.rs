//! The start-up check of required columns, observed from outside.

use crate::support::{SECRET, Scratch, UpServer, migrated_database};
use onceward_testkit::eventually;

#[tokio::test]
async fn a_missing_column_fails_readiness_and_is_named() {
    let (scratch, database) = (Scratch::new(), migrated_database().await);
    let owner = database.owner().await;
    let mut up =
        UpServer::start(&scratch, &[("DATABASE_URL", &database.url()), ("ONCEWARD_AUTH_SECRET", SECRET)]).await;
    assert_eq!(up.get("/health/ready").await.0, 200);

    owner.batch_execute("ALTER TABLE orders.customer_order DROP COLUMN status").await.unwrap();
    let detail = eventually("readiness fails", || async {
        let (status, report) = up.get("/health/ready").await;
        (status == 503).then(|| report["checks"][0]["detail"].as_str().unwrap_or_default().to_owned())
    });
    let detail = detail.await;
    assert!(detail.contains("orders.customer_order.status"), "{detail}");
    assert_eq!(up.get("/health/live").await.0, 200);
    assert!(up.process.stop_with("TERM").await.success());
}
