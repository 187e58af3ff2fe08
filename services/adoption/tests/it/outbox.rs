//! Messages of the legacy outbox are published once.

use crate::support::LegacyFixture;

#[tokio::test]
async fn waiting_messages_are_published_once_and_in_order() {
    let legacy = LegacyFixture::new().await;
    legacy
        .execute(
            "INSERT INTO outbox (topic, payload, published_at) VALUES ('loan.paid', '{\"n\": 0}', now());
             INSERT INTO outbox (topic, payload) VALUES ('loan.paid', '{\"n\": 1}'), ('loan.paid.v2', '{\"n\": 2}'),
                 ('loan.paid', '\"text\"'), ('loan.paid', '{\"n\": \"\\u0000\"}'), ('loan.paid', NULL), ('loan.paid', '{\"n\": 3}')",
        )
        .await;
    legacy.run().await;
    legacy.run().await;
    // New messages are published with the transaction that writes them.
    legacy.execute("BEGIN; INSERT INTO outbox (topic, payload) VALUES ('loan.paid', '{\"n\": 9}'); ROLLBACK").await;
    legacy.execute("INSERT INTO outbox (topic, payload) VALUES ('loan.paid', '{\"n\": 4}'), ('loan.paid', '[]')").await;
    let published =
        "SELECT string_agg(concat_ws(' ', event_type, topic, payload ->> 'n'), ', ' ORDER BY (payload ->> 'n')::int)
                FROM onceward.outbox_messages WHERE idempotency_key LIKE 'legacy-outbox:%'";
    assert_eq!(
        legacy.query_value::<String>(published, &[]).await,
        "loan.paid.v1 ls.events:tenant.acme.loan.paid 1, loan.paid.v2 ls.events:tenant.acme.loan.paid 2, \
         loan.paid.v1 ls.events:tenant.acme.loan.paid 3, loan.paid.v1 ls.events:tenant.acme.loan.paid 4"
    );
    let waiting = "SELECT string_agg(id::text, ',' ORDER BY id) FROM outbox WHERE published_at IS NULL";
    assert_eq!(legacy.query_value::<String>(waiting, &[]).await, "4,5,6,10");
    let findings = legacy.findings().await;
    assert_eq!(findings.len(), 4, "{findings:?}");
    assert!(findings[0].starts_with("outbox 4 payload loan.paid: payload must be a JSON object"), "{findings:?}");
    // One is corrected, and the next run publishes it.
    legacy.execute("UPDATE outbox SET payload = '{\"n\": 5}' WHERE id = 6").await;
    legacy.run().await;
    assert_eq!(legacy.query_value::<String>(waiting, &[]).await, "4,5,10");
}
