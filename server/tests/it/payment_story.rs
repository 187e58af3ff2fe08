//! `onceward trace` for payments, whose messages have their own correlation ids.

use crate::{
    cli_fixture::CliFixture,
    lending_process::today,
    payment_kills::{lending_client::LendingClient, loans::create_loans},
    support::{http, services_with},
};
use onceward_testkit::{HttpResponse, TestPlatform, eventually, free_port, pending_work, token};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use uuid::Uuid;

const ROLES: [&str; 4] = ["payments:read", "payments:intake", "payments:make", "payments:operate"];

/// Sends a request of acme that must succeed; returns its correlation id and the body.
async fn send(url: &str, method: Method, path: &str, body: &Value) -> (String, Value) {
    let request = http().request(method, format!("{url}{path}")).bearer_auth(token("acme", &ROLES));
    let request = request.header("idempotency-key", Uuid::now_v7().to_string()).json(body);
    let response = HttpResponse::to(request).await;
    assert!((200..300).contains(&response.status), "{path}: {response:?}");
    let correlation = response.header("x-correlation-id").expect("a correlation id").to_owned();
    (correlation, response.body)
}

/// Returns the messages that `trace` finds from an id.
async fn messages(cli: &CliFixture, id: &str, more: &[&str]) -> Vec<Value> {
    let output = cli.run(&[&["trace", id, "--json"], more].concat()).await;
    assert_eq!(output.code, 0, "{id}: {}{}", output.stdout, output.stderr);
    let story = output.json().remove(0);
    story["messages"].as_array().expect("messages").clone()
}

/// Returns the types of these messages.
async fn traced_types(cli: &CliFixture, id: &str, more: &[&str]) -> BTreeSet<String> {
    let messages = messages(cli, id, more).await;
    messages.iter().filter_map(|message| Some(message["eventType"].as_str()?.to_owned())).collect()
}

fn types(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}

#[tokio::test]
async fn a_payment_is_traced_from_its_response_its_key_and_its_id() {
    let settings = [
        ("ONCEWARD_LENDING_MOCK_PROVIDER", "true"),
        ("ONCEWARD_WEBHOOKS_ALLOW_HTTP", "true"),
        ("ONCEWARD_WEBHOOKS_ALLOWED_NETWORKS", "127.0.0.0/8"),
        ("ONCEWARD_WEBHOOKS_SECRET_KEY", "a-key-for-this-test-with-more-than-32-bytes"),
    ];
    let mut platform = TestPlatform::new(services_with(&settings)).await;
    platform.run_consumers();
    let url = platform.serve_http().await;
    let lending = LendingClient::new(url.clone());
    let loan_id = create_loans(&lending, today(), 1).await[0];
    // Nothing listens on this port, and the failed deliveries are part of the story too.
    let endpoint = json!({"url": format!("http://127.0.0.1:{}/hooks", free_port()), "event_types": ["payment.posted"]});
    let created = lending.send(Method::POST, 0, "/api/webhooks/endpoints", "endpoint", &endpoint).await;
    created.with_status(201);
    let owner = platform.database().owner().await;
    let wait_until_handled = async || {
        eventually("everything is handled", || async { pending_work(&owner).await.is_empty().then_some(()) }).await;
    };
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);

    let body = json!({"txn_id": "t", "loan_id": loan_id, "amount_minor": "12000", "effective_date": today()});
    let (request, payment) = send(&url, Method::POST, "/payments/intake/mock", &body).await;
    wait_until_handled().await;
    let key = payment["idempotency_key"].as_str().expect("a key");
    let posted = format!("payment:{}", payment["payment_id"].as_str().expect("an id"));
    let expected = types(&["payment.received.v1", "payment.validated.v1", "payment.posted.v1"]);
    for id in [request.as_str(), key, &posted] {
        assert_eq!(traced_types(&cli, id, &[]).await, expected, "from {id}");
        assert_eq!(traced_types(&cli, id, &["--tenant", "acme"]).await, expected, "from {id}, of acme");
        assert_eq!(cli.run(&["trace", id, "--tenant", "globex"]).await.code, 1, "it does not belong to globex");
    }

    eventually("the webhook is part of the story", || async {
        let output = cli.run(&["trace", &request, "--json"]).await;
        let story = output.json().remove(0);
        let messages = story["messages"].as_array().expect("messages");
        let posted =
            messages.iter().find(|message| message["eventType"] == "payment.posted.v1").expect("the payment is posted");
        let contributions = posted["contributions"].as_array().expect("a list");
        let is_attempted = |contribution: &Value| {
            contribution["service"] == "webhooks" && contribution["data"]["attempts"].as_i64() >= Some(1)
        };
        contributions.iter().any(is_attempted).then_some(())
    })
    .await;

    let body = json!({"loan_id": loan_id, "amount_minor": "700"});
    let (request, payment) = send(&url, Method::POST, "/api/payments", &body).await;
    wait_until_handled().await;
    let payment_id = payment["payment_id"].as_str().expect("an id");
    let path = format!("/api/payments/{payment_id}/return");
    let (returned, _) = send(&url, Method::POST, &path, &json!({"reason": "R01"})).await;
    wait_until_handled().await;
    let expected = types(&[
        "payment.process.v1",
        "payment.received.v1",
        "payment.validated.v1",
        "payment.posted.v1",
        "payment.post.v1",
        "payment.returned.v1",
    ]);
    for id in [request, format!("payment:{payment_id}"), returned] {
        assert_eq!(traced_types(&cli, &id, &[]).await, expected, "from {id}");
    }
    assert!(platform.stop().await.0, "it stops in time");
}

/// Refuses every posting with an error that can be retried.
const CLOSED_BOOKS: &str = "
    CREATE FUNCTION public.closed_books() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE lock_not_available USING MESSAGE = 'the books are closed'; END $$;
    CREATE TRIGGER closed_books BEFORE INSERT ON lending.payment_posting
        FOR EACH ROW EXECUTE FUNCTION public.closed_books()";

#[tokio::test]
async fn the_failed_attempts_of_a_payment_are_traced_from_each_of_its_ids() {
    let mut platform = TestPlatform::new(services_with(&[("ONCEWARD_LENDING_MOCK_PROVIDER", "true")])).await;
    platform.run_consumers();
    let url = platform.serve_http().await;
    let lending = LendingClient::new(url.clone());
    let loan_id = create_loans(&lending, today(), 1).await[0];
    let owner = platform.database().owner().await;
    let cli = CliFixture::on_database(platform.database().url(), platform.database().owner().await);
    owner.batch_execute(CLOSED_BOOKS).await.expect("the trigger is created");
    let body = json!({"txn_id": "t", "loan_id": loan_id, "amount_minor": "12000", "effective_date": today()});
    let (request, payment) = send(&url, Method::POST, "/payments/intake/mock", &body).await;
    eventually("an attempt failed", || async {
        (cli.count("SELECT count(*) FROM onceward.failed_attempt").await > 0).then_some(())
    })
    .await;
    owner.batch_execute("DROP TRIGGER closed_books ON lending.payment_posting").await.expect("the trigger is dropped");
    eventually("everything is handled", || async { pending_work(&owner).await.is_empty().then_some(()) }).await;

    let posted = format!("payment:{}", payment["payment_id"].as_str().expect("an id"));
    for id in [request.as_str(), payment["idempotency_key"].as_str().expect("a key"), &posted] {
        let messages = messages(&cli, id, &[]).await;
        let validated = messages
            .iter()
            .find(|message| message["eventType"] == "payment.validated.v1")
            .expect("a validated payment");
        let places = validated["places"].as_array().expect("places");
        let failed = places.iter().filter_map(|place| place["failedAttempts"].as_array()).flatten();
        let errors: Vec<&str> = failed.filter_map(|attempt| attempt["error"].as_str()).collect();
        assert!(errors.iter().any(|error| error.contains("the books are closed")), "from {id}: {validated}");
    }
    assert!(platform.stop().await.0, "it stops in time");
}
