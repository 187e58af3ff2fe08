//! A tenant's own program is told of its payments, by all services as the program runs them.

use crate::{
    plug::{loans::open_loans, till::Till},
    services::{SECTIONS, services},
    support::in_time,
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
async fn a_posted_payment_is_told_to_the_tenant_whose_it_is() {
    let settings = [
        ("ONCEWARD_WEBHOOKS_SECRET_KEY", "a key for the secrets of endpoints"),
        ("ONCEWARD_WEBHOOKS_ALLOW_HTTP", "true"),
        ("ONCEWARD_WEBHOOKS_ALLOWED_NETWORKS", "127.0.0.1/32"),
    ];
    let variable = |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let config = Config::load_with(None, SECTIONS, variable).expect("the settings are valid");
    let mut platform = TestPlatform::new(services(&config).expect("the settings are valid")).await;
    platform.run_consumers();
    let till = Till::at(platform.serve_http().await);
    let (address, mut posted) = collector().await;
    let endpoint = json!({ "url": format!("http://{address}/hooks"), "event_types": ["payment.posted"] });
    let made = till.send(Method::POST, ACME, "/api/webhooks/endpoints", "endpoint", &endpoint).await;
    assert_eq!(made.status, 201, "{}", made.body);

    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loan_id = open_loans(&till, today, 1).await[0];
    for (tenant, name) in [(GLOBEX, "theirs"), (ACME, "ours")] {
        let body = json!({ "txn_id": name, "loan_id": loan_id, "amount_minor": "12000", "effective_date": today });
        let paid = till.send(Method::POST, tenant, "/payments/intake/mock", name, &body).await;
        assert_eq!(paid.status, 201, "{}", paid.body);
    }
    let (request, body) = in_time("the payment is told", posted.recv()).await.expect("the receiver is there");
    let told: Value = serde_json::from_slice(&body).expect("the body is JSON");
    assert!(request.starts_with("POST /hooks "), "{request}");
    assert_eq!((&told["type"], &told["tenantId"]), (&json!("payment.posted.v1"), &json!("acme")));
    assert_eq!(told["data"]["loan_id"], json!(loan_id));
}
