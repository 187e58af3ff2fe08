//! The timeline of a contact, and its rebuild from the audit chain.

use crate::support::CrmFixture;
use reqwest::Method;
use serde_json::{Value, json};

/// Makes every kind of change to a contact, and returns its id.
async fn change_everything(fixture: &CrmFixture) -> String {
    let f = fixture;
    let id = f.create_person("acme", "Ada", "ada@example.org").await;
    let path = format!("contacts/{id}");
    f.patch("acme", &path, json!({ "phone": "1", "jurisdiction": "US" })).await.with_status(200);
    f.put("acme", &format!("{path}/tags"), json!({ "tags": ["vip"] })).await.with_status(200);
    f.put("acme", &format!("{path}/labels"), json!({ "labels": { "tier": "gold" } })).await.with_status(200);
    f.put("acme", &format!("{path}/owner"), json!({ "owner_id": "clerk" })).await.with_status(200);
    let address = f.post("acme", &format!("{path}/addresses"), json!({ "address": "ada@home.example" })).await;
    let address = address.with_status(201)["address_id"].as_str().unwrap().to_owned();
    let address = format!("{path}/addresses/{address}");
    f.patch("acme", &address, json!({ "is_verified": true })).await.with_status(200);
    f.delete("acme", &address).await.with_status(200);
    let note = f.post("acme", &format!("{path}/notes"), json!({ "body": "Called." })).await.with_status(201);
    f.delete("acme", &format!("{path}/notes/{}", note["note_id"].as_str().unwrap())).await.with_status(200);
    f.post("acme", &format!("{path}/links"), json!({ "object_type": "loan", "object_id": "L-1" }))
        .await
        .with_status(201);
    f.delete("acme", &format!("{path}/links/loan/L-1")).await.with_status(200);
    let dnc = json!({ "class": "marketing", "reason": "asked" });
    let dnc = f.post("acme", &format!("{path}/do-not-contact"), dnc).await.with_status(201);
    let dnc = dnc["entries"][0]["dnc_id"].as_str().unwrap().to_owned();
    f.delete("acme", &format!("{path}/do-not-contact/{dnc}")).await.with_status(200);
    let consent = json!({
        "class": "marketing", "is_given": true, "basis": "consent", "source": "web form", "text_version": "1",
    });
    f.post("acme", &format!("{path}/consents"), consent).await.with_status(201);
    f.post_empty("acme", &format!("{path}/erase")).await.with_status(200);
    id
}

async fn timeline(fixture: &CrmFixture, id: &str) -> Vec<Value> {
    let page = fixture.get("acme", &format!("contacts/{id}/timeline?limit=200")).await.with_status(200);
    assert_eq!(page["next"], Value::Null);
    page["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_rebuilt_timeline_equals_the_original_after_every_kind_of_change() {
    let fixture = CrmFixture::start().await;
    let id = change_everything(&fixture).await;
    let other = fixture.create_person("acme", "Bob", "bob@example.org").await;
    let original = timeline(&fixture, &id).await;
    let kinds: Vec<&str> = original.iter().rev().filter_map(|entry| entry["event_type"].as_str()).collect();
    let expected = [
        "CONTACT.CREATED",
        "CONTACT.UPDATED",
        "TAGS.CHANGED",
        "LABELS.CHANGED",
        "OWNER.CHANGED",
        "ADDRESS.ADDED",
        "ADDRESS.UPDATED",
        "ADDRESS.REMOVED",
        "NOTE.ADDED",
        "NOTE.REMOVED",
        "LINK.ADDED",
        "LINK.REMOVED",
        "DNC.SET",
        "DNC.LIFTED",
        "CONSENT.RECORDED",
        "CONTACT.ERASED",
    ];
    assert_eq!(kinds, expected.map(|kind| format!("CRM.{kind}")));
    assert_eq!(original[0]["actor"], crate::support::USER);

    // A damaged timeline: one line lost, one invented.
    fixture.execute("DELETE FROM crm.timeline WHERE event_type = 'CRM.DNC.SET'").await;
    let invent = format!(
        "INSERT INTO crm.timeline (tenant_id, contact_id, entry_id, occurred_at, event_type)
         VALUES ('acme', '{id}', gen_random_uuid(), now(), 'CRM.DNC.SET')"
    );
    fixture.execute(&invent).await;
    assert_ne!(timeline(&fixture, &id).await, original);
    let changes = fixture.changes("acme").await.len();
    let rebuilt = fixture.post_empty("acme", &format!("contacts/{id}/timeline/rebuild")).await.with_status(200);
    assert_eq!(rebuilt["entries"], expected.len());
    assert_eq!(timeline(&fixture, &id).await, original);
    assert_eq!(timeline(&fixture, &other).await.len(), 1, "other contacts keep theirs");
    assert_eq!(fixture.changes("acme").await.len(), changes, "a rebuild changes no fact");
}

#[tokio::test]
async fn a_timeline_is_read_in_pages_latest_first() {
    let fixture = CrmFixture::start().await;
    let id = change_everything(&fixture).await;
    let all = timeline(&fixture, &id).await;
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    for _ in 0..all.len() {
        let page = fixture.get("acme", &format!("contacts/{id}/timeline?limit=5{cursor}")).await.with_status(200);
        paged.extend(page["entries"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, all);
    assert_eq!(fixture.get("acme", &format!("contacts/{id}/timeline?cursor=x")).await.status, 422);
    let unknown = uuid::Uuid::now_v7();
    fixture.get("acme", &format!("contacts/{unknown}/timeline")).await.with_status(404);
}

#[tokio::test]
async fn only_administrators_rebuild_a_timeline_or_erase_a_contact() {
    let fixture = CrmFixture::start().await;
    let id = fixture.create_person("acme", "Ada", "ada@example.org").await;
    let clerk = fixture.token_with("acme", "clerk", &["crm:read", "crm:write"]);
    for path in [format!("contacts/{id}/timeline/rebuild"), format!("contacts/{id}/erase")] {
        assert_eq!(fixture.call_as(&clerk, Method::POST, &path, None).await.status, 403, "{path}");
    }
    let rule = json!({ "demand": "forbidden", "reason": "no" });
    let refused = fixture.call_as(&clerk, Method::PUT, "jurisdiction-rules/US/marketing", Some(&rule)).await;
    assert_eq!(refused.status, 403);
}
