//! A tenant's own program receives webhooks about its payments, with all services as the program runs them.

use crate::{
    payment_kills::{lending_client::LendingClient, loans::create_loans},
    services::{SECTIONS, services},
    support::with_timeout,
    telemetry::collector,
};
use jiff::{Timestamp, tz::TimeZone};
use onceward::Config;
use onceward_testkit::TestPlatform;
use reqwest::Method;
use serde_json::{Value, json};

const ACME: usize = 0;
const GLOBEX: usize = 1;

#[tokio::test]
async fn a_posted_payment_is_delivered_to_the_tenant_that_owns_it() {
    let settings = [
        ("ONCEWARD_WEBHOOKS_SECRET_KEY", "a key for the secrets of endpoints"),
        ("ONCEWARD_WEBHOOKS_ALLOW_HTTP", "true"),
        ("ONCEWARD_LENDING_MOCK_PROVIDER", "true"),
        ("ONCEWARD_WEBHOOKS_ALLOWED_NETWORKS", "127.0.0.1/32"),
    ];
    let variable = |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let config = Config::load_with(None, SECTIONS, variable).expect("the settings are valid");
    let mut platform = TestPlatform::new(services(&config).expect("the settings are valid")).await;
    platform.run_consumers();
    let lending = LendingClient::new(platform.serve_http().await);
    let (address, mut posted) = collector().await;
    let endpoint = json!({ "url": format!("http://{address}/hooks"), "event_types": ["payment.posted"] });
    let created = lending.send(Method::POST, ACME, "/api/webhooks/endpoints", "endpoint", &endpoint).await;
    created.with_status(201);

    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loan_id = create_loans(&lending, today, 1).await[0];
    for (tenant, name) in [(GLOBEX, "theirs"), (ACME, "ours")] {
        let body = json!({ "txn_id": name, "loan_id": loan_id, "amount_minor": "12000", "effective_date": today });
        let payment = lending.send(Method::POST, tenant, "/payments/intake/mock", name, &body).await;
        payment.with_status(201);
    }
    let (request, body) = with_timeout("the payment is delivered", posted.recv()).await.expect("the receiver runs");
    let event: Value = serde_json::from_slice(&body).expect("the body is JSON");
    assert!(request.starts_with("POST /hooks "), "{request}");
    assert_eq!((&event["type"], &event["tenantId"]), (&json!("payment.posted.v1"), &json!("acme")));
    assert_eq!(event["data"]["loan_id"], json!(loan_id));
}
