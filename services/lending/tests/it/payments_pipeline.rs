//! A payment's path from its gateway to the ledger, on PostgreSQL and on RabbitMQ.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use futures_util::future::join_all;
use onceward::{NewMessage, outbox};
use onceward_lending::payments::events::{PaymentRaw, PaymentReceived, PaymentValidated};
use onceward_testkit::{eventually, left_out, rabbitmq_url};
use serde_json::{Value, json};
use uuid::Uuid;

/// Runs the standard scenario, step by step.
async fn payment_is_posted_once(fixture: &LendingFixture) {
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let body = mock_payment(loan_id, "txn-1", 12_000);
    let taken = submit(&client, &body).await.with_status(201);
    let (payment_id, key) = (id(&taken["payment_id"]), taken["idempotency_key"].as_str().unwrap().to_owned());
    assert_eq!(key.len(), 64);
    let payment = wait_for_status(&client, payment_id, "posted").await;

    let sum: i64 = applied(&payment["posting"]).iter().map(|(_, amount)| amount).sum();
    assert_eq!(sum, 12_000, "{payment}");
    let event = payment["ledger"][0].clone();
    assert_eq!(event["correlation_id"], format!("payment:{payment_id}"));
    assert_eq!((event["schema"].as_str(), event["finalized_at"].is_null()), (Some("posting.payment.v1"), false));
    let side = |side: &str| -> i64 {
        let lines = event["lines"].as_array().unwrap().iter().filter(|line| line["side"] == side);
        lines.map(|line| line["amount_minor"].as_str().unwrap().parse::<i64>().unwrap()).sum()
    };
    assert_eq!((side("debit"), side("credit")), (12_000, 12_000));

    let duplicate = submit(&client, &body).await.with_status(200);
    assert_eq!(duplicate, json!({"status": "duplicate", "payment_id": payment_id, "idempotency_key": key}));
    assert_seen_once(fixture, payment_id).await;
    wait_until_idle(fixture).await;
    assert_eq!(client.postings(loan_id, "posting.payment.v1").await.len(), 1);
    assert_eq!(published(fixture, "payment.received.v1").await, 1);
    for action in ["payment_received", "payment_validated", "payment_posted"] {
        assert_eq!(fixture.count_audit_entries("acme", action).await, 1, "{action}");
    }
    assert_stories_are_linked(fixture, payment_id, &key).await;
    assert_books_balance(fixture).await;
}

async fn assert_seen_once(fixture: &LendingFixture, payment_id: Uuid) {
    let seen = "SELECT count(*) FROM lending.payment_event WHERE payment_id = $1 AND event_type = 'payment.posted.v1'";
    let seen = eventually("the posting is seen by the audit's queue", || async {
        let seen: i64 = fixture.query_value(seen, &[&payment_id]).await;
        (seen > 0).then_some(seen)
    })
    .await;
    assert_eq!(seen, 1);
}

/// Checks that the correlation ids have their fixed form and that every message names its cause.
async fn assert_stories_are_linked(fixture: &LendingFixture, payment_id: Uuid, key: &str) {
    let sql = "SELECT event_type, topic, correlation_id, causation_id IS NOT NULL, id::text, causation_id
               FROM onceward.outbox_messages WHERE aggregate_id = $1 ORDER BY id";
    let rows = fixture.owner.query(sql, &[&payment_id.to_string()]).await.expect("rows");
    let found: Vec<(String, String, String, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    let row = |kind: &str, topic: &str, story: &str, caused: bool| {
        (kind.to_owned(), topic.to_owned(), story.to_owned(), caused)
    };
    let story = format!("payment:{payment_id}");
    assert_eq!(
        found,
        [
            row("payment.received.v1", "payments.validation:received.v1", key, false),
            row("payment.validated.v1", "payments.saga:validated.v1", key, true),
            row("payment.posted.v1", "payments.events:payment.posted.v1", &story, true),
        ]
    );
    for pair in rows.windows(2) {
        assert_eq!(
            pair[1].get::<_, Option<String>>(5),
            Some(pair[0].get::<_, String>(4)),
            "each is caused by the last"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_received_validated_and_posted_once() {
    payment_is_posted_once(&LendingFixture::start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_received_validated_and_posted_once_over_rabbitmq() {
    if !left_out("rabbitmq") {
        payment_is_posted_once(&LendingFixture::start_on(Some(&rabbitmq_url())).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_shows_everything_that_happened_to_it() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let payment = submit_and_post(&client, &mock_payment(loan_id, "txn-1", 500)).await;
    wait_until_idle(&fixture).await;
    let payment = self::payment(&client, id(&payment["payment_id"])).await;
    assert_eq!(payment["intake"]["amount_minor"], "500");
    assert_eq!(payment["intake"]["source"], "mock");
    assert_eq!(payment["validation"]["is_valid"], true);
    assert_eq!(payment["posting"]["event_id"], payment["ledger"][0]["event_id"]);
    let types: Vec<&str> =
        payment["messages"].as_array().unwrap().iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["payment.received.v1", "payment.validated.v1", "payment.posted.v1"]);
    assert_eq!((payment["reposts"].clone(), payment["return"].clone()), (json!([]), Value::Null));
    client.get(&format!("/api/payments/{}", Uuid::now_v7())).await.with_status(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_payment_reported_concurrently_is_one_payment() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let body = mock_payment(loan_id, "storm", 700);
    let responses = join_all((0..20).map(|_| submit(&client, &body))).await;
    let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; 19], vec![201]].concat());
    let first = responses[0].body["payment_id"].clone();
    assert!(responses.iter().all(|response| response.body["payment_id"] == first));
    wait_for_status(&client, id(&first), "posted").await;
    wait_until_idle(&fixture).await;
    assert_eq!(fixture.count("lending.payment_intake").await, 1);
    assert_eq!(published(&fixture, "payment.received.v1").await, 1);
    assert_eq!(balance(&client, loan_id, "cash").await, 700);
}

/// Publishes a message again under a new idempotency key, like a sender that does not know it was published before.
async fn publish_again<E: onceward::Event>(client: &ApiClient<'_>, event: &E) {
    let platform = &client.fixture.platform;
    let mut tx = platform.db().begin(platform.scope(&client.tenant)).await.expect("a transaction");
    let tenant = tx.tenant().expect("a tenant").clone();
    let message = NewMessage::from_event(event, &tenant).expect("a message");
    outbox::send(&mut tx, message.once_per(Uuid::now_v7().to_string())).await.expect("the message is accepted");
    tx.commit().await.expect("the commit succeeds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_messages_post_once() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let payment = submit_and_post(&client, &mock_payment(loan_id, "txn-1", 900)).await;
    let payment_id = id(&payment["payment_id"]);
    let received: PaymentReceived = serde_json::from_value(message(&fixture, "payment.received").await).unwrap();
    let validated: PaymentValidated = serde_json::from_value(message(&fixture, "payment.validated").await).unwrap();
    for _ in 0..15 {
        publish_again(&client, &received).await;
        publish_again(&client, &validated).await;
    }
    wait_until_idle(&fixture).await;
    assert_eq!(balance(&client, loan_id, "cash").await, 900);
    assert_eq!(client.postings(loan_id, "posting.payment.v1").await.len(), 1);
    assert_eq!(published(&fixture, "payment.validated.v1").await, 16, "only the copies were published");
    assert_eq!(published(&fixture, "payment.posted.v1").await, 1);
    assert_eq!(self::payment(&client, payment_id).await["dead_letters"], json!([]));
    assert_eq!(fixture.count("onceward.dead_letters").await, 0);
}

async fn message(fixture: &LendingFixture, event_type: &str) -> Value {
    fixture.query_value("SELECT payload FROM onceward.message_log WHERE event_type = $1 LIMIT 1", &[&event_type]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_message_becomes_a_dead_letter_and_later_payments_are_posted() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let first = submit_and_post(&client, &mock_payment(loan_id, "txn-1", 100)).await;
    let good: PaymentValidated = serde_json::from_value(message(&fixture, "payment.validated").await).unwrap();
    let unknown = PaymentValidated { payment_id: Uuid::now_v7(), ..good.clone() };
    let raised = PaymentValidated { amount_minor: "1000000".parse().unwrap(), ..good };
    publish_again(&client, &unknown).await;
    publish_again(&client, &raised).await;
    submit_and_post(&client, &mock_payment(loan_id, "txn-2", 200)).await;
    wait_until_idle(&fixture).await;
    let dead =
        "SELECT count(*) FROM onceward.dead_letters WHERE queue = 'q.payments.validated' AND reason = 'rejected'";
    assert_eq!(fixture.query_value::<i64>(dead, &[]).await, 2, "the unknown payment, and the one with another amount");
    assert_eq!(balance(&client, loan_id, "cash").await, 300, "the manipulated amount was not posted");
    assert_eq!(first["status"], "posted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_payloads_may_arrive_through_a_queue() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let raw = |payload: Value| PaymentRaw { provider: "mock".to_owned(), payload };
    publish_again(&client, &raw(mock_payment(loan_id, "q-1", 300))).await;
    publish_again(&client, &raw(mock_payment(loan_id, "q-1", 300))).await;
    publish_again(&client, &raw(mock_payment(Uuid::now_v7(), "q-2", 300))).await;
    publish_again(&client, &raw(json!({"txn_id": "q-3"}))).await;
    publish_again(&client, &PaymentRaw { provider: "nobody".to_owned(), payload: json!({}) }).await;
    wait_until_idle(&fixture).await;
    assert_eq!(fixture.count("lending.payment_intake").await, 2, "including the payment for an unknown loan");
    assert_eq!(balance(&client, loan_id, "cash").await, 300);
    let dead = "SELECT count(*) FROM onceward.dead_letters WHERE queue = 'q.payments.intake'";
    assert_eq!(fixture.query_value::<i64>(dead, &[]).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_borrowers_payment_is_posted_once_per_idempotency_key() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let body = json!({"loan_id": loan_id, "amount_minor": "1500", "allocation_hints": {"bucket": "principal"}});
    let first = client.post_as("pay-1", "/api/payments", &body).await;
    let location = first.header("location").expect("a Location header").to_owned();
    let first = first.with_status(202);
    assert_matches_schema(&client, "payment.accepted.v1", &first);
    let payment_id = id(&first["payment_id"]);
    assert_eq!(location, format!("/api/payments/{payment_id}"));
    let again = client.post_as("pay-1", "/api/payments", &body).await;
    assert_eq!(id(&again.with_status(202)["payment_id"]), payment_id);
    let payment = wait_for_status(&client, payment_id, "posted").await;
    assert_eq!(payment["intake"]["source"], "direct");
    assert_eq!(payment["command"]["state"], "done");
    assert_eq!(applied(&payment["posting"]), [("principal".to_owned(), 1500)]);
    assert_eq!(payment["ledger"][0]["schema"], "posting.prepayment.v1", "it pays no instalment");
    assert_eq!(fixture.count("lending.payment_intake").await, 1);
    for wrong in [
        json!({"loan_id": Uuid::now_v7(), "amount_minor": "1500"}),
        json!({"loan_id": loan_id, "amount_minor": "0"}),
        json!({"loan_id": loan_id, "amount_minor": 15}),
        json!({"loan_id": loan_id, "amount_minor": "1.5"}),
        json!({"loan_id": loan_id, "amount_minor": "9999999999999999999"}),
        json!({"loan_id": loan_id, "amount_minor": "1", "currency": "usd"}),
        json!({"loan_id": loan_id, "amount_minor": "1", "allocation_hints": {"bucket": "unknown"}}),
    ] {
        client.post("/api/payments", &wrong).await.with_status(422);
    }
    client.post_without_key("/api/payments", &body).await.with_status(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_posting_whose_lines_were_tampered_with_cannot_become_final() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    submit_and_post(&client, &mock_payment(loan_id, "txn-1", 900)).await;
    let tampered = "UPDATE ledger.ledger_entry SET credit_minor = credit_minor + 1 WHERE credit_minor > 0";
    let refused = fixture.owner.execute(tampered, &[]).await.expect_err("final lines cannot be changed");
    assert!(refused.to_string().contains("db error"), "{refused}");
    let draft = format!(
        "SET onceward.tenant_id = 'acme';
         INSERT INTO ledger.ledger_event (tenant_id, event_id, loan_id, schema, correlation_id, effective_date)
         VALUES ('acme', '00000000-0000-7000-8000-000000000001', '{loan_id}', 'posting.payment.v1', 'tampered', current_date);
         INSERT INTO ledger.ledger_entry (tenant_id, event_id, line_no, loan_id, account, currency, debit_minor, credit_minor, memo, effective_date)
         SELECT 'acme', '00000000-0000-7000-8000-000000000001', n, '{loan_id}', a, 'USD', d, c, '', current_date
         FROM (VALUES (1::smallint, 'cash', 900, 0), (2::smallint, 'loan_principal', 0, 899)) AS l (n, a, d, c)"
    );
    fixture.owner.batch_execute(&draft).await.expect("a draft may be anything");
    let finalise = "SELECT ledger.sp_finalize_ledger_event('00000000-0000-7000-8000-000000000001')::text";
    let refused = fixture.owner.query_one(finalise, &[]).await.expect_err("it does not balance");
    let message = refused.as_db_error().expect("the database reports the error").message().to_owned();
    assert!(message.contains("does not balance"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_their_published_names() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    submit_and_post(&client, &mock_payment(loan_id, "txn-1", 900)).await;
    submit(&client, &mock_payment(loan_id, "txn-1", 900)).await.with_status(200);
    let failed = submit_new(&client, &mock_payment(loan_id, "txn-2", 500_000_001)).await;
    wait_for_status(&client, failed, "failed").await;
    wait_until_idle(&fixture).await;
    let metrics =
        client.request(reqwest::Method::GET, "/metrics").send().await.expect("an answer").text().await.unwrap();
    for name in [
        "payments_received_total{provider=\"mock\",method=\"ach\"}",
        "payments_duplicate_total ",
        "payments_validated_total{result=\"ok\"}",
        "payments_validated_total{result=\"fail\",reason=\"amount_too_large\"}",
        "payments_posted_total ",
        "payments_failed_total{reason=\"amount_too_large\"}",
        "payments_outbox_published_total ",
        "payments_e2e_latency_ms_bucket",
        "payments_validation_latency_ms_bucket",
        "payments_posting_latency_ms_bucket",
    ] {
        assert!(metrics.contains(name), "{name} is not among\n{metrics}");
    }
}
