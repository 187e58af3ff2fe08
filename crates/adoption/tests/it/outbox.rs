//! Messages of the legacy outbox are published once.

use crate::support::Legacy;

#[tokio::test]
async fn waiting_messages_are_handed_over_once_and_in_order() {
    let legacy = Legacy::new().await;
    legacy
        .do_sql(
            "INSERT INTO outbox (topic, payload, published_at) VALUES ('loan.paid', '{\"n\": 0}', now());
             INSERT INTO outbox (topic, payload) VALUES ('loan.paid', '{\"n\": 1}'), ('loan.paid.v2', '{\"n\": 2}'),
                 ('loan.paid', '\"text\"'), ('loan.paid', '{\"n\": \"\\u0000\"}'), ('loan.paid', NULL), ('loan.paid', '{\"n\": 3}')",
        )
        .await;
    legacy.run().await;
    legacy.run().await;
    // And what comes now goes with the commit that writes it.
    legacy.do_sql("BEGIN; INSERT INTO outbox (topic, payload) VALUES ('loan.paid', '{\"n\": 9}'); ROLLBACK").await;
    legacy.do_sql("INSERT INTO outbox (topic, payload) VALUES ('loan.paid', '{\"n\": 4}'), ('loan.paid', '[]')").await;
    let told =
        "SELECT string_agg(concat_ws(' ', event_type, topic, payload ->> 'n'), ', ' ORDER BY (payload ->> 'n')::int)
                FROM onceward.outbox_messages WHERE idempotency_key LIKE 'legacy-outbox:%'";
    assert_eq!(
        legacy.ask::<String>(told, &[]).await,
        "loan.paid.v1 ls.events:tenant.acme.loan.paid 1, loan.paid.v2 ls.events:tenant.acme.loan.paid 2, \
         loan.paid.v1 ls.events:tenant.acme.loan.paid 3, loan.paid.v1 ls.events:tenant.acme.loan.paid 4"
    );
    let waiting = "SELECT string_agg(id::text, ',' ORDER BY id) FROM outbox WHERE published_at IS NULL";
    assert_eq!(legacy.ask::<String>(waiting, &[]).await, "4,5,6,10");
    let findings = legacy.findings().await;
    assert_eq!(findings.len(), 4, "{findings:?}");
    assert!(findings[0].starts_with("outbox 4 payload loan.paid: payload must be a JSON object"), "{findings:?}");
    // One is put right, and the next run publishes it.
    legacy.do_sql("UPDATE outbox SET payload = '{\"n\": 5}' WHERE id = 6").await;
    legacy.run().await;
    assert_eq!(legacy.ask::<String>(waiting, &[]).await, "4,5,10");
}
