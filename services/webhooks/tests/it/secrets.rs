//! Secrets and their rotation.

use crate::support::{WebhooksFixture, settings};
use onceward_webhooks::signature::VerificationError;
use serde_json::json;

#[tokio::test]
async fn both_secrets_are_valid_until_the_old_one_expires() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, old) = fixture.create_endpoint("acme", "ok").await;
    let path = format!("endpoints/{endpoint}/rotate-secret");
    let rotated = fixture.post("acme", &path, json!({ "overlap_s": 3600 })).await.with_status(200);
    let new = rotated["secret"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
    assert_eq!(rotated["secrets"].as_array().map(Vec::len), Some(2));
    fixture.publish_sales("acme", 0..1).await;
    let request = &fixture.receiver.wait_for("ok", 1).await[0];
    assert_eq!((request.verify(&old), request.verify(&new)), (Ok(()), Ok(())));

    fixture.execute("UPDATE webhooks.secret SET expires_at = now() WHERE expires_at IS NOT NULL").await;
    fixture.publish_sales("acme", 1..2).await;
    let request = &fixture.receiver.wait_for("ok", 2).await[1];
    assert_eq!((request.verify(&old), request.verify(&new)), (Err(VerificationError::NoMatch), Ok(())));
    assert_eq!(fixture.count_audit_entries("acme", "webhook_secret_rotated").await, 1);
}

#[tokio::test]
async fn an_old_secret_can_be_invalidated_at_once() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, old) = fixture.create_endpoint("acme", "ok").await;
    let path = format!("endpoints/{endpoint}/rotate-secret");
    fixture.post("acme", &path, json!({ "overlap_s": 0 })).await.with_status(200);
    fixture.publish_sales("acme", 0..1).await;
    let request = &fixture.receiver.wait_for("ok", 1).await[0];
    assert_eq!(request.verify(&old), Err(VerificationError::NoMatch));
    assert_eq!(request.signature.split(' ').count(), 1);
}

#[tokio::test]
async fn many_rotations_leave_five_valid_secrets_and_none_is_shown_again() {
    let fixture = WebhooksFixture::start(settings()).await;
    let (endpoint, first) = fixture.create_endpoint("acme", "ok").await;
    for _ in 0..8 {
        fixture.post("acme", &format!("endpoints/{endpoint}/rotate-secret"), json!({})).await.with_status(200);
    }
    let shown = fixture.get("acme", &format!("endpoints/{endpoint}")).await.with_status(200);
    assert_eq!(shown["secrets"].as_array().map(Vec::len), Some(5));
    assert!(!shown.to_string().contains("whsec_"), "{shown}");
    let audit_documents: String = fixture.query("SELECT string_agg(document, ' ') FROM audit.entry", &[]).await;
    assert!(!audit_documents.contains("whsec_") && !audit_documents.contains(&first[6..]));
}
