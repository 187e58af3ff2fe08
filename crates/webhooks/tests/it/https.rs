//! Receivers that speak TLS.

use crate::support::{Authority, Receiver, World, settings};
use onceward_webhooks::Settings;
use rustls::ServerConfig;
use serde_json::{Value, json};

/// As in production: nothing goes out in the clear.
fn https(authority: &Authority) -> Settings {
    Settings { allow_http: false, extra_roots: authority.as_root(), ..settings() }
}

/// Sells one thing to an endpoint at `url`, and gives the endpoint's id and secret.
async fn sell_to(world: &World, url: &str) -> (String, String) {
    let endpoint = world.endpoint_with("acme", "", json!({ "url": url })).await;
    world.sell("acme", 0..1).await;
    endpoint
}

#[tokio::test]
async fn a_receiver_with_a_certificate_that_is_trusted_gets_its_event() {
    let authority = Authority::new();
    let receiver = Receiver::start_with(authority.certify("127.0.0.1")).await;
    let world = World::open(https(&authority)).await;
    let (endpoint, secret) = sell_to(&world, &format!("https://127.0.0.1:{}/ok", receiver.port)).await;
    let got = &receiver.wait("ok", 1).await[0];
    assert_eq!((got.verify(&secret), &got.json()["data"]), (Ok(()), &json!({ "number": 0 })));
    world.settled("acme", &endpoint, "delivered", 1).await;
}

/// The receiver gets nothing, and each attempt's reason says `why`.
async fn check_distrust(settings: Settings, certificate: ServerConfig, why: &str) {
    let receiver = Receiver::start_with(certificate).await;
    let world = World::open(settings).await;
    let (endpoint, _) = sell_to(&world, &format!("https://127.0.0.1:{}/ok", receiver.port)).await;
    let failed = &world.settled("acme", &endpoint, "failed", 1).await[0];
    let log = failed["log"].as_array().expect("attempts");
    assert_eq!(log.len(), 3);
    for attempt in log {
        let error = attempt["error"].as_str().unwrap_or_default();
        assert!(error.contains("certificate is not trusted") && error.contains(why), "{error}");
        assert_eq!(attempt["status"], Value::Null);
    }
    assert!(receiver.got("ok").is_empty());
}

#[tokio::test]
async fn a_certificate_that_nobody_known_has_issued_is_not_trusted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    check_distrust(https(&ours), theirs.certify("127.0.0.1"), "nobody whom we trust").await;
    let by_default = Settings { extra_roots: Settings::default().extra_roots, ..https(&ours) };
    check_distrust(by_default, ours.certify("127.0.0.1"), "nobody whom we trust").await;
}

#[tokio::test]
async fn a_certificate_for_another_name_or_another_time_is_not_trusted() {
    let authority = Authority::new();
    check_distrust(https(&authority), authority.certify("hooks.example.com"), "another name").await;
    check_distrust(https(&authority), authority.certify_expired("127.0.0.1"), "expired").await;
}

#[tokio::test]
async fn a_good_certificate_opens_no_way_into_our_own_network() {
    let authority = Authority::new();
    let closed = Settings { allowed_networks: "".parse().unwrap(), ..https(&authority) };
    let world = World::open(closed).await;
    for (host, name) in [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("2130706433", "127.0.0.1")] {
        let receiver = Receiver::start_with(authority.certify(name)).await;
        let (endpoint, _) = sell_to(&world, &format!("https://{host}:{}/inside", receiver.port)).await;
        let failed = &world.settled("acme", &endpoint, "failed", 1).await[0];
        let error = failed["log"][0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("nothing is sent there"), "{host}: {error}");
        assert!(receiver.got("inside").is_empty());
    }
}
