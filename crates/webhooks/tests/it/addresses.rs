//! Requests stay out of our own network.

use crate::support::{Receiver, World, settings};
use onceward_webhooks::Settings;
use serde_json::json;

#[tokio::test]
async fn an_endpoint_on_this_machine_gets_nothing_unless_its_network_is_allowed() {
    let closed = Settings { allowed_networks: "".parse().unwrap(), ..settings() };
    let world = World::open(closed).await;
    let mut endpoints = Vec::new();
    let port = world.receiver.port;
    let hosts = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0.0.0.0"];
    for host in hosts {
        let url = format!("http://{host}:{port}/inside");
        endpoints.push(world.endpoint_with("acme", "inside", json!({ "url": url })).await.0);
    }
    world.sell("acme", 0..1).await;
    for (host, endpoint) in hosts.iter().zip(&endpoints) {
        let failed = &world.settled("acme", endpoint, "failed", 1).await[0];
        let error = failed["log"][0]["error"].as_str().unwrap();
        assert!(error.contains("nothing is sent there"), "{host}: {error}");
        assert!(!error.contains("127.0.0.1"), "the address is not told: {error}");
    }
    assert!(world.receiver.got("inside").is_empty());
}

#[tokio::test]
async fn only_the_address_that_is_allowed_is_reached() {
    let world = World::open(settings()).await;
    let neighbour = Receiver::start_at("127.0.0.2:0").await;
    let url = format!("http://127.0.0.2:{}/inside", neighbour.port);
    let (refused, _) = world.endpoint_with("acme", "inside", json!({ "url": url })).await;
    let (allowed, _) = world.endpoint("acme", "ok").await;
    world.sell("acme", 0..1).await;
    world.settled("acme", &allowed, "delivered", 1).await;
    world.settled("acme", &refused, "failed", 1).await;
    assert!(neighbour.got("inside").is_empty());
}

#[tokio::test]
async fn addresses_that_cannot_be_meant_are_refused_when_they_are_saved() {
    let strict = Settings { allow_http: false, max_endpoints: 1, ..settings() };
    let world = World::open(strict).await;
    for url in ["http://example.com/", "https://me:secret@example.com/", "ftp://example.com/", "nonsense", ""] {
        let refused = world.post("acme", "endpoints", json!({ "url": url, "event_types": ["*"] })).await;
        assert_eq!((refused.0, &refused.1["errors"][0]["path"]), (422, &json!("/url")), "{url}");
    }
    let body = json!({ "url": "https://example.com/hooks/token", "event_types": ["*"] });
    world.post("acme", "endpoints", body.clone()).await.with(201);
    let refused = world.post("acme", "endpoints", body.clone()).await;
    assert_eq!((refused.0, &refused.1["code"]), (409, &json!("webhook-endpoint-limit")));
    world.post("other", "endpoints", body).await.with(201);
    let audited: String = world.ask("SELECT string_agg(document, ' ') FROM audit.entry", &[]).await;
    assert!(audited.contains("https://example.com") && !audited.contains("token"), "{audited}");
}
