//! Receivers that use TLS.

use crate::support::{CertificateAuthority, WebhookReceiver, WebhooksFixture, settings};
use onceward_webhooks::Settings;
use rustls::ServerConfig;
use serde_json::{Value, json};

/// Settings as in production: nothing is sent unencrypted.
fn https_settings(authority: &CertificateAuthority) -> Settings {
    Settings { allow_http: false, extra_roots: authority.as_root(), ..settings() }
}

/// Creates an endpoint at `url` and publishes one event. Returns the endpoint's id and secret.
async fn publish_sale_to(fixture: &WebhooksFixture, url: &str) -> (String, String) {
    let endpoint = fixture.create_endpoint_with("acme", "", json!({ "url": url })).await;
    fixture.publish_sales("acme", 0..1).await;
    endpoint
}

#[tokio::test]
async fn a_receiver_with_a_trusted_certificate_gets_its_event() {
    let authority = CertificateAuthority::new();
    let receiver = WebhookReceiver::start_with_tls(authority.certify("127.0.0.1")).await;
    let fixture = WebhooksFixture::start(https_settings(&authority)).await;
    let (endpoint, secret) = publish_sale_to(&fixture, &format!("https://127.0.0.1:{}/ok", receiver.port)).await;
    let request = &receiver.wait_for("ok", 1).await[0];
    assert_eq!((request.verify(&secret), &request.json()["data"]), (Ok(()), &json!({ "number": 0 })));
    fixture.wait_for_deliveries("acme", &endpoint, "delivered", 1).await;
}

/// Checks that the receiver gets nothing and that the error of each attempt contains `reason`.
async fn check_not_trusted(settings: Settings, certificate: ServerConfig, reason: &str) {
    let receiver = WebhookReceiver::start_with_tls(certificate).await;
    let fixture = WebhooksFixture::start(settings).await;
    let (endpoint, _) = publish_sale_to(&fixture, &format!("https://127.0.0.1:{}/ok", receiver.port)).await;
    let failed = &fixture.wait_for_deliveries("acme", &endpoint, "failed", 1).await[0];
    let log = failed["log"].as_array().expect("attempts");
    assert_eq!(log.len(), 3);
    for attempt in log {
        let error = attempt["error"].as_str().unwrap_or_default();
        assert!(error.contains("certificate is not trusted") && error.contains(reason), "{error}");
        assert_eq!(attempt["status"], Value::Null);
    }
    assert!(receiver.requests("ok").is_empty());
}

#[tokio::test]
async fn a_certificate_of_an_unknown_issuer_is_not_trusted() {
    let (ours, theirs) = (CertificateAuthority::new(), CertificateAuthority::new());
    check_not_trusted(https_settings(&ours), theirs.certify("127.0.0.1"), "no trusted authority").await;
    let by_default = Settings { extra_roots: Settings::default().extra_roots, ..https_settings(&ours) };
    check_not_trusted(by_default, ours.certify("127.0.0.1"), "no trusted authority").await;
}

#[tokio::test]
async fn a_certificate_for_another_name_or_an_expired_one_is_not_trusted() {
    let authority = CertificateAuthority::new();
    check_not_trusted(https_settings(&authority), authority.certify("hooks.example.com"), "another name").await;
    check_not_trusted(https_settings(&authority), authority.certify_expired("127.0.0.1"), "expired").await;
}

#[tokio::test]
async fn a_trusted_certificate_does_not_allow_private_addresses() {
    let authority = CertificateAuthority::new();
    let restricted = Settings { allowed_networks: "".parse().unwrap(), ..https_settings(&authority) };
    let fixture = WebhooksFixture::start(restricted).await;
    for (host, name) in [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("2130706433", "127.0.0.1")] {
        let receiver = WebhookReceiver::start_with_tls(authority.certify(name)).await;
        let (endpoint, _) = publish_sale_to(&fixture, &format!("https://{host}:{}/inside", receiver.port)).await;
        let failed = &fixture.wait_for_deliveries("acme", &endpoint, "failed", 1).await[0];
        let error = failed["log"][0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("nothing is sent there"), "{host}: {error}");
        assert!(receiver.requests("inside").is_empty());
    }
}
