//! The row of another program and its message are one commit.

use onceward_example_recipes::{activity_feed, own_transaction::issue_invoice};
use onceward_testkit::{TestPlatform, eventually};

#[tokio::test]
async fn a_message_published_from_another_programs_transaction_is_consumed_once() {
    let mut platform = TestPlatform::new(vec![activity_feed::service()]).await;
    let mut client = platform.database().owner().await;
    let tables = "CREATE SCHEMA shop; CREATE TABLE shop.invoice (invoice_id uuid PRIMARY KEY, tenant_id text, amount_minor bigint)";
    client.batch_execute(tables).await.unwrap();

    let id = issue_invoice(&mut client, "acme", 1200).await.unwrap().expect("the key is new");
    platform.run_consumers();

    let seen = eventually("the message is consumed", || async {
        let rows =
            client.query("SELECT event_id, event_type, payload->>'amountMinor' FROM feed.activity", &[]).await.unwrap();
        (!rows.is_empty()).then_some(rows)
    });
    let seen = seen.await;
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].get::<_, uuid::Uuid>(0), seen[0].get::<_, &str>(1), seen[0].get::<_, &str>(2)),
        (id, "invoice.issued.v1", "1200")
    );
}

#[tokio::test]
async fn a_transaction_that_rolls_back_publishes_nothing() {
    let platform = TestPlatform::new(vec![activity_feed::service()]).await;
    let mut client = platform.database().owner().await;
    // There is no table for invoices, so the transaction fails before it publishes.
    issue_invoice(&mut client, "acme", 1200).await.expect_err("the insert fails");
    let published: i64 = client.query_one("SELECT count(*) FROM onceward.outbox_messages", &[]).await.unwrap().get(0);
    assert_eq!(published, 0);
}
