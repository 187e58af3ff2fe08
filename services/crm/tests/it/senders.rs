//! Senders and their DKIM keys.

use crate::support::CrmFixture;
use reqwest::Method;
use serde_json::{Value, json};

/// A key of the mail crate's tests.
const RSA: &str = include_str!("../../../mail/tests/it/data/rsa-2048-for-tests.pem");

async fn put_sender(fixture: &CrmFixture, tenant: &str, domain: &str) -> Value {
    let body = json!({ "from_address": format!("loans@{domain}"), "from_name": "Acme Loans" });
    fixture.put(tenant, &format!("senders/{domain}"), body).await.with_status(200)
}

#[tokio::test]
async fn the_first_sender_is_the_default_until_another_one_is_made_it() {
    let fixture = CrmFixture::start().await;
    let first = put_sender(&fixture, "acme", "acme.example").await;
    assert_eq!(first["is_default"], true);
    let second = put_sender(&fixture, "acme", "mail.acme.example").await;
    assert_eq!(second["is_default"], false);
    let f = &fixture;
    let body = json!({ "from_address": "loans@mail.acme.example", "from_name": "Acme Loans", "is_default": true });
    let change = f
        .one_change("acme", async { f.put("acme", "senders/mail.acme.example", body.clone()).await.with_status(200) })
        .await;
    assert_eq!((change.event_type.as_str(), &change.old["is_default"]), ("CRM.SENDER.SET", &json!(false)));
    assert!(!change.document.contains("loans@"), "addresses are hashed: {}", change.document);
    let listed = fixture.get("acme", "senders").await.with_status(200);
    let defaults: Vec<_> =
        listed["senders"].as_array().unwrap().iter().map(|one| one["is_default"].as_bool()).collect();
    assert_eq!(defaults, [Some(false), Some(true)]);
    fixture.put("acme", "senders/mail.acme.example", body).await.with_status(200);
    assert_eq!(fixture.count_audit_entries("acme", "CRM.SENDER.SET").await, 3, "the same again is no change");
}

#[tokio::test]
async fn a_sender_must_belong_to_its_domain() {
    let fixture = CrmFixture::start().await;
    for (body, field) in [
        (json!({ "from_address": "loans@other.example" }), "/from_address"),
        (json!({ "from_address": "not an address" }), "/from_address"),
        (json!({ "from_address": "loans@acme.example", "from_name": "A\r\nBcc: x@y.example" }), "/from_name"),
        (json!({ "from_address": "loans@acme.example", "reply_to": "x" }), "/reply_to"),
    ] {
        let refused = fixture.put("acme", "senders/acme.example", body).await;
        assert_eq!((refused.status, refused.wrong_fields()), (422, vec![field]), "{}", refused.text);
    }
    assert_eq!(fixture.changes("acme").await.len(), 0);
}

#[tokio::test]
async fn a_generated_key_is_returned_as_a_dns_record_and_stored_sealed() {
    let fixture = CrmFixture::start().await;
    put_sender(&fixture, "acme", "acme.example").await;
    let f = &fixture;
    let change = f
        .one_change("acme", async {
            let key = f.post("acme", "senders/acme.example/dkim", json!({ "selector": "s1" })).await.with_status(201);
            assert_eq!((&key["algorithm"], &key["is_active"]), (&json!("ed25519-sha256"), &json!(false)));
            assert_eq!(key["record_name"], "s1._domainkey.acme.example");
            assert!(key["record"].as_str().unwrap().starts_with("v=DKIM1; k=ed25519; p="));
            assert!(!key.to_string().contains("PRIVATE"));
            key
        })
        .await;
    assert_eq!(change.event_type, "CRM.DKIM.ADDED");
    let sealed: Vec<u8> = fixture.query("SELECT sealed FROM crm.dkim_key", &[]).await;
    assert!(sealed.len() > 32, "a nonce, the seed and a tag");
    let twice = fixture.post("acme", "senders/acme.example/dkim", json!({ "selector": "s1" })).await;
    assert_eq!((twice.status, &twice.body["code"]), (409, &json!("already-exists")));
    fixture.post("acme", "senders/other.example/dkim", json!({ "selector": "s1" })).await.with_status(404);
}

#[tokio::test]
async fn a_key_is_rotated_by_activating_a_new_selector_and_deleting_the_old_one() {
    let fixture = CrmFixture::start().await;
    put_sender(&fixture, "acme", "acme.example").await;
    for selector in ["s1", "s2"] {
        fixture.post("acme", "senders/acme.example/dkim", json!({ "selector": selector })).await.with_status(201);
    }
    let rsa = json!({ "selector": "rsa", "private_key_pem": RSA });
    let rsa = fixture.post("acme", "senders/acme.example/dkim", rsa).await.with_status(201);
    assert_eq!(rsa["algorithm"], "rsa-sha256");
    let active = || async {
        let listed = fixture.get("acme", "senders").await.with_status(200);
        let keys = listed["senders"][0]["dkim_keys"].as_array().unwrap().clone();
        let names =
            keys.iter().filter(|key| key["is_active"] == true).map(|key| key["selector"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    for selector in ["s1", "rsa"] {
        fixture.post_empty("acme", &format!("senders/acme.example/dkim/{selector}/activate")).await.with_status(200);
    }
    assert_eq!(active().await, ["rsa", "s1"], "one key of each algorithm signs");
    let f = &fixture;
    let change = f
        .one_change("acme", async {
            f.post_empty("acme", "senders/acme.example/dkim/s2/activate").await.with_status(200)
        })
        .await;
    assert_eq!((&change.old["selector"], &change.new["selector"]), (&json!("s1"), &json!("s2")));
    assert_eq!(active().await, ["rsa", "s2"]);
    fixture.post_empty("acme", "senders/acme.example/dkim/s2/activate").await.with_status(200);
    assert_eq!(fixture.count_audit_entries("acme", "CRM.DKIM.ACTIVATED").await, 3);
    fixture.delete("acme", "senders/acme.example/dkim/s1").await.with_status(200);
    fixture.delete("acme", "senders/acme.example/dkim/s1").await.with_status(404);
    assert_eq!(fixture.count_audit_entries("acme", "CRM.DKIM.REMOVED").await, 1);
}

#[tokio::test]
async fn a_key_that_is_not_usable_is_refused_and_nobody_but_administrators_may_add_one() {
    let fixture = CrmFixture::start().await;
    put_sender(&fixture, "acme", "acme.example").await;
    for pem in ["nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        let body = json!({ "selector": "s1", "private_key_pem": pem });
        let refused = fixture.post("acme", "senders/acme.example/dkim", body).await;
        assert_eq!((refused.status, refused.wrong_fields()), (422, vec!["/private_key_pem"]), "{}", refused.text);
    }
    let clerk = fixture.token_with("acme", "clerk", &["crm:read", "crm:write"]);
    let body = json!({ "selector": "s1" });
    let refused = fixture.call_as(&clerk, Method::POST, "senders/acme.example/dkim", Some(&body)).await;
    assert_eq!(refused.status, 403);
}
