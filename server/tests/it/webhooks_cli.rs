//! `onceward webhooks`: a receiver on this machine, and the list of event types to subscribe to.

use crate::{
    services::webhook_sources,
    support::{Process, Scratch, UpServer, http, json_lines_of, services, stdout_of, with_timeout},
};
use onceward::Platform;
use onceward_testkit::{HttpResponse, eventually, free_port};
use onceward_webhooks::WebhookSecret;
use serde_json::{Value, json};
use std::fs;

#[tokio::test]
async fn the_receiver_verifies_and_prints_deliveries() {
    let (scratch, secret) = (Scratch::new(), WebhookSecret::generate());
    let log = scratch.join("listen.log");
    let args = ["webhooks", "listen", "--port", "0", "--json"];
    let mut receiver = Process::start(&args, &[("WEBHOOK_SECRET", &secret.reveal())], &log);
    let url = eventually("the receiver listens", || async {
        let stderr = fs::read_to_string(&log).ok()?;
        assert!(!stderr.contains("error"), "{stderr}");
        stderr.contains("ALLOWED_NETWORKS").then_some(())?;
        stderr.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
    })
    .await;
    let body = json!({ "type": "payment.posted.v1", "data": { "number": 7 } }).to_string();
    let send = async |secret: &WebhookSecret| {
        let at = jiff::Timestamp::now().as_second();
        let request = http().post(&url).header("webhook-id", "msg_1").header("webhook-timestamp", at);
        let request = request.header("webhook-signature", secret.sign("msg_1", at, body.as_bytes())).body(body.clone());
        HttpResponse::to(request).await.status
    };
    assert_eq!((send(&secret).await, send(&WebhookSecret::generate()).await), (204, 401));
    let mut printed = Vec::new();
    for _ in 0..2 {
        let line = with_timeout("a delivery is printed", receiver.next_line()).await;
        printed.push(serde_json::from_str::<Value>(&line).expect("every line is JSON"));
    }
    assert_eq!((&printed[0]["verified"], &printed[0]["type"]), (&json!(true), &json!("payment.posted.v1")));
    assert_eq!((&printed[1]["verified"], &printed[0]["body"]["data"]["number"]), (&json!(false), &json!(7)));
    assert!(receiver.stop_with("INT").await.success());
}

/// Sends a body with the printed token of `up`.
async fn post(up: &UpServer, path: &str, body: &Value) -> HttpResponse {
    let request = http().post(format!("{}{path}", up.url)).bearer_auth(&up.token).json(body);
    HttpResponse::to(request.header("idempotency-key", uuid::Uuid::now_v7().to_string())).await
}

#[tokio::test]
async fn a_local_receiver_is_reached_with_the_settings_that_the_error_names() {
    let (scratch, port) = (Scratch::new(), free_port().to_string());
    let endpoint = json!({"url": format!("http://127.0.0.1:{port}/"), "event_types": ["*"]});
    let mut up = UpServer::start(&scratch, &[]).await;
    let rejected = post(&up, "/api/webhooks/endpoints", &endpoint).await.with_status(422);
    let error = rejected["errors"][0]["message"].as_str().expect("a message").to_owned();
    let words = error.split(|letter: char| letter.is_whitespace() || "();,".contains(letter));
    let settings: Vec<(&str, &str)> =
        words.filter(|word| word.starts_with("ONCEWARD_")).filter_map(|word| word.split_once('=')).collect();
    assert_eq!(settings.len(), 2, "{error}");
    assert!(up.process.stop_with("INT").await.success());

    let mut up = UpServer::start(&scratch, &settings).await;
    let created = post(&up, "/api/webhooks/endpoints", &endpoint).await.with_status(201);
    let secret = created["secret"].as_str().expect("a secret");
    let args = ["webhooks", "listen", "--port", &port, "--json"];
    let log = scratch.join("listen.log");
    let mut receiver = Process::start(&args, &[("WEBHOOK_SECRET", secret)], &log);
    eventually("the receiver listens", || async { fs::read_to_string(&log).ok()?.contains("http://").then_some(()) })
        .await;
    let path = format!("/api/webhooks/endpoints/{}/test", created["endpoint_id"].as_str().expect("an id"));
    post(&up, &path, &Value::Null).await.with_status(202);
    let line = with_timeout("the delivery is printed", receiver.next_line()).await;
    let printed: Value = serde_json::from_str(&line).expect("every line is JSON");
    assert_eq!(printed["verified"], true, "{printed}");
    assert!(receiver.stop_with("INT").await.success());
    assert!(up.process.stop_with("INT").await.success());
}

#[tokio::test]
async fn event_types_are_listed_and_each_has_a_schema() {
    let listed = stdout_of(&["webhooks", "types"], &[]).await;
    assert!(listed.lines().any(|line| line == "payment.posted.v1"), "{listed}");
    let as_json = json_lines_of(&["webhooks", "types", "--json"], &[]).await.remove(0);
    let types = as_json["event_types"].as_array().expect("a list").clone();
    assert_eq!(types.len(), listed.lines().count());
    let platform = Platform::assemble(services()).expect("the services are valid");
    for event_type in webhook_sources().iter().flat_map(|source| source.types) {
        assert!(platform.schemas().contains(event_type), "{event_type} has no schema");
        assert!(types.contains(&json!(event_type)));
    }
}
