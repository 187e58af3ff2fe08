//! Requests stay out of our own network.

use crate::support::{WebhookReceiver, WebhooksFixture, settings};
use onceward_webhooks::Settings;
use serde_json::json;

#[tokio::test]
async fn an_endpoint_on_this_machine_receives_nothing_unless_its_network_is_allowed() {
    let restricted = Settings { allowed_networks: "".parse().unwrap(), ..settings() };
    let fixture = WebhooksFixture::start(restricted).await;
    let mut endpoints = Vec::new();
    let port = fixture.receiver.port;
    let hosts = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0.0.0.0"];
    for host in hosts {
        let url = format!("http://{host}:{port}/inside");
        endpoints.push(fixture.create_endpoint_with("acme", "inside", json!({ "url": url })).await.0);
    }
    fixture.publish_sales("acme", 0..1).await;
    for (host, endpoint) in hosts.iter().zip(&endpoints) {
        let failed = &fixture.wait_for_deliveries("acme", endpoint, "failed", 1).await[0];
        let error = failed["log"][0]["error"].as_str().unwrap();
        assert!(error.contains("nothing is sent there"), "{host}: {error}");
        assert!(!error.contains("127.0.0.1"), "the address is not revealed: {error}");
    }
    assert!(fixture.receiver.requests("inside").is_empty());
}

#[tokio::test]
async fn only_allowed_addresses_are_reached() {
    let fixture = WebhooksFixture::start(settings()).await;
    let neighbour = WebhookReceiver::start_at("127.0.0.2:0").await;
    let url = format!("http://127.0.0.2:{}/inside", neighbour.port);
    let (refused, _) = fixture.create_endpoint_with("acme", "inside", json!({ "url": url })).await;
    let (allowed, _) = fixture.create_endpoint("acme", "ok").await;
    fixture.publish_sales("acme", 0..1).await;
    fixture.wait_for_deliveries("acme", &allowed, "delivered", 1).await;
    fixture.wait_for_deliveries("acme", &refused, "failed", 1).await;
    assert!(neighbour.requests("inside").is_empty());
}

#[tokio::test]
async fn invalid_urls_and_too_many_endpoints_are_rejected_on_creation() {
    let strict = Settings { allow_http: false, max_endpoints: 1, ..settings() };
    let fixture = WebhooksFixture::start(strict).await;
    for url in ["http://example.com/", "https://me:secret@example.com/", "ftp://example.com/", "nonsense", ""] {
        let refused = fixture.post("acme", "endpoints", json!({ "url": url, "event_types": ["*"] })).await;
        assert_eq!((refused.status, &refused.body["errors"][0]["path"]), (422, &json!("/url")), "{url}");
    }
    let body = json!({ "url": "https://example.com/hooks/token", "event_types": ["*"] });
    fixture.post("acme", "endpoints", body.clone()).await.with_status(201);
    let refused = fixture.post("acme", "endpoints", body.clone()).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("webhook-endpoint-limit")));
    fixture.post("other", "endpoints", body).await.with_status(201);
    let audit_documents: String = fixture.query("SELECT string_agg(document, ' ') FROM audit.entry", &[]).await;
    assert!(audit_documents.contains("https://example.com") && !audit_documents.contains("token"), "{audit_documents}");
}
