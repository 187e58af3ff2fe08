//! Another tenant sees and changes nothing.

use crate::support::{CrmFixture, greeting};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn another_tenant_sees_and_changes_nothing() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", "ada@example.org").await;
    let contact = format!("contacts/{id}");
    let shown = fixture.get("acme", &contact).await.with_status(200);
    let address = shown["addresses"][0]["address_id"].as_str().unwrap();
    fixture.post("acme", &format!("{contact}/notes"), json!({ "body": "Called." })).await.with_status(201);
    fixture.put("acme", "assignments/loan/L-1/ann", json!({ "duty": "owner" })).await.with_status(200);
    fixture
        .put("acme", "jurisdiction-rules/US/marketing", json!({ "demand": "consent", "reason": "law" }))
        .await
        .with_status(200);
    fixture.create_template("acme", "welcome", "transactional").await;
    fixture.put("acme", "senders/acme.example", json!({ "from_address": "a@acme.example" })).await.with_status(200);
    fixture.post("acme", "senders/acme.example/dkim", json!({ "selector": "s1" })).await.with_status(201);
    let before = fixture.changes("acme").await.len();

    for (path, list) in [
        ("contacts", "contacts"),
        ("contacts?name=ada", "contacts"),
        ("contacts?address=ada@example.org", "contacts"),
        ("assignments?user=ann", "assignments"),
        ("assignments?object_type=loan&object_id=L-1", "assignments"),
        ("jurisdiction-rules", "rules"),
        ("templates?retired=true", "templates"),
        ("senders", "senders"),
    ] {
        assert_ne!(fixture.get("acme", path).await.with_status(200)[list], json!([]), "{path}");
        assert_eq!(fixture.get("rival", path).await.with_status(200)[list], json!([]), "{path}");
    }
    let source = json!({ "class": "legal", "source": greeting("Hi") });
    let consent =
        json!({ "class": "marketing", "is_given": true, "basis": "consent", "source": "x", "text_version": "1" });
    let requests: &[(Method, String, Option<Value>)] = &[
        (Method::GET, contact.clone(), None),
        (Method::GET, format!("{contact}/notes"), None),
        (Method::GET, format!("{contact}/timeline"), None),
        (Method::GET, format!("{contact}/do-not-contact"), None),
        (Method::GET, format!("{contact}/consents"), None),
        (Method::PATCH, contact.clone(), Some(json!({ "phone": "1" }))),
        (Method::PUT, format!("{contact}/tags"), Some(json!({ "tags": ["vip"] }))),
        (Method::POST, format!("{contact}/addresses"), Some(json!({ "address": "x@example.org" }))),
        (Method::PATCH, format!("{contact}/addresses/{address}"), Some(json!({ "is_verified": true }))),
        (Method::POST, format!("{contact}/notes"), Some(json!({ "body": "x" }))),
        (Method::POST, format!("{contact}/do-not-contact"), Some(json!({ "class": "*", "reason": "x" }))),
        (Method::POST, format!("{contact}/consents"), Some(consent)),
        (Method::POST, format!("{contact}/erase"), None),
        (Method::POST, format!("{contact}/timeline/rebuild"), None),
        (Method::DELETE, "assignments/loan/L-1/ann".into(), None),
        (Method::DELETE, "jurisdiction-rules/US/marketing".into(), None),
        (Method::GET, "templates/welcome".into(), None),
        (Method::GET, "templates/welcome/versions/1".into(), None),
        (Method::POST, "templates/welcome/preview".into(), Some(json!({}))),
        (Method::PUT, "templates/welcome".into(), Some(source)),
        (Method::POST, "templates/welcome/retire".into(), None),
        (Method::POST, "senders/acme.example/dkim/s1/activate".into(), None),
        (Method::DELETE, "senders/acme.example/dkim/s1".into(), None),
    ];
    for (method, path, body) in requests {
        let refused = fixture.call("rival", method.clone(), path, body.as_ref()).await;
        assert_eq!(refused.status, 404, "{method} {path}: {}", refused.text);
    }
    assert_eq!(fixture.changes("acme").await.len(), before);
    assert_eq!(fixture.changes("rival").await.len(), 0);
}

#[tokio::test]
async fn the_same_address_has_another_hash_for_another_tenant() {
    let fixture = CrmFixture::start().await;
    for tenant in ["acme", "rival"] {
        fixture.create_person(tenant, "Ada", "ada@example.org").await;
    }
    let hashes: i64 = fixture.query("SELECT count(DISTINCT address_hash) FROM crm.contact_address", &[]).await;
    assert_eq!(hashes, 2);
}
