//! The suppression list: by hash, by hand, and shortened for a reason.

use crate::support::{CrmFixture, WEBHOOK_SECRET};
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TENANT: &str = "acme";

async fn suppress(fixture: &CrmFixture, body: Value) -> Value {
    fixture.post(TENANT, "suppressions", body).await.with_status(201)
}

#[tokio::test]
async fn an_address_is_suppressed_by_hand_and_shown_by_its_hash_only() {
    let fixture = CrmFixture::start().await;
    let until = Timestamp::now() + SignedDuration::from_hours(24);
    let body =
        json!({ "address": "Ada@Example.org", "mail_class": "marketing", "reason": "asked by phone", "until": until });
    let created = suppress(&fixture, body.clone()).await;
    assert_eq!(created["reason"], "manual");
    assert_eq!(created["evidence"], json!({ "note": "asked by phone" }));
    fixture.post(TENANT, "suppressions", body).await.with_status(200);
    let listed = fixture.get(TENANT, "suppressions?address=ada@example.org").await;
    assert!(!listed.text.to_lowercase().contains("example.org"), "{}", listed.text);
    assert_eq!(listed.with_status(200)["suppressions"], json!([created]));
    let other = fixture.get(TENANT, "suppressions?address=bob@example.org").await.with_status(200);
    assert_eq!(other["suppressions"], json!([]));
    assert_eq!(fixture.get("globex", "suppressions").await.with_status(200)["suppressions"], json!([]));
    let changes = fixture.changes(TENANT).await;
    assert_eq!(changes.len(), 1, "a repetition records nothing");
    assert_eq!(changes[0].event_type, "CRM.SUPPRESSION.ADDED");
    assert!(!changes[0].document.to_lowercase().contains("example.org"));
}

#[tokio::test]
async fn invalid_suppressions_are_refused() {
    let fixture = CrmFixture::start().await;
    let past = "2020-01-01T00:00:00Z";
    for (body, field) in [
        (json!({ "address": "no address", "reason": "x" }), "/address"),
        (json!({ "address": "a@b.example>\r\nRCPT TO:<x@y.example", "reason": "x" }), "/address"),
        (json!({ "address": "a@b.example", "reason": "x", "until": past }), "/until"),
        (json!({ "address": "a@b.example", "reason": "x", "mail_class": "all" }), "/mail_class"),
    ] {
        let refused = fixture.post(TENANT, "suppressions", body).await;
        assert_eq!((refused.status, refused.wrong_fields()), (422, vec![field]), "{}", refused.text);
    }
    fixture.get(TENANT, "suppressions?cursor=x").await.with_status(400);
    fixture.get(TENANT, "suppressions?address=x").await.with_status(422);
}

#[tokio::test]
async fn pages_contain_every_entry_once() {
    let fixture = CrmFixture::start().await;
    for number in 0..7 {
        suppress(&fixture, json!({ "address": format!("a{number}@example.org"), "reason": "x" })).await;
    }
    // Entries of one moment are in order, too.
    fixture.execute("UPDATE crm.suppression SET since = '2026-01-01' WHERE address_hash < '\\x80'").await;
    let (mut seen, mut count, mut path) = (BTreeSet::new(), 0, "suppressions?limit=2".to_owned());
    for _ in 0..10 {
        let page = fixture.get(TENANT, &path).await.with_status(200);
        for entry in page["suppressions"].as_array().expect("a list") {
            seen.insert(entry["address_hash"].to_string());
            count += 1;
        }
        let Some(next) = page["next"].as_str() else { break };
        path = format!("suppressions?limit=2&cursor={next}");
    }
    assert_eq!((seen.len(), count), (7, 7));
}

#[tokio::test]
async fn a_verified_address_is_written_to_again_and_late_reports_do_not_count() {
    let fixture = CrmFixture::start_with(|settings| settings.resend_webhook_secret = WEBHOOK_SECRET.to_owned()).await;
    let mail = fixture.insert_mail(TENANT, "transactional", &["ada@example.org"]).await;
    let hard = || json!({ "type": "Permanent", "message": "550 5.1.1 user unknown" });
    let before = Timestamp::now();
    fixture.report(&mail, "msg_1", "email.bounced", before, hard()).await.with_status(200);
    suppress(&fixture, json!({ "address": "ada@example.org", "reason": "asked by phone" })).await;
    let hash = hex::encode(fixture.address_hash(TENANT, "ada@example.org").await);
    let path = format!("suppressions/{hash}");
    let body = json!({ "reason": "verified by phone", "suppressed_for": "hard_bounce" });
    fixture.call(TENANT, Method::DELETE, &path, Some(&json!({}))).await.with_status(422);
    fixture.call("globex", Method::DELETE, &path, Some(&body)).await.with_status(404);
    let removed = fixture.call(TENANT, Method::DELETE, &path, Some(&body)).await.with_status(200);
    assert_eq!(removed["removed"][0]["reason"], "hard_bounce");
    let manual = [("*".to_owned(), "manual".to_owned(), None)];
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, manual);
    let change = fixture.changes(TENANT).await.pop().expect("a change");
    assert_eq!(change.event_type, "CRM.SUPPRESSION.REMOVED");
    assert_eq!(change.payload["detail"]["removed_because"], "verified by phone");

    fixture.report(&mail, "msg_2", "email.bounced", before, hard()).await.with_status(200);
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, manual, "a late report about the time before");
    fixture.report(&mail, "msg_3", "email.bounced", Timestamp::now(), hard()).await.with_status(200);
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await.len(), 2);
    fixture.call(TENANT, Method::DELETE, &path, Some(&json!({ "reason": "all" }))).await.with_status(200);
    fixture.call(TENANT, Method::DELETE, &path, Some(&json!({ "reason": "all" }))).await.with_status(404);
}

#[tokio::test]
async fn reading_and_changing_need_their_roles() {
    let fixture = CrmFixture::start().await;
    let reader = fixture.token_with(TENANT, "reader", &["crm:read"]);
    let body = json!({ "address": "ada@example.org", "reason": "x" });
    fixture.call_as(&reader, Method::GET, "suppressions", None).await.with_status(200);
    fixture.call_as(&reader, Method::POST, "suppressions", Some(&body)).await.with_status(403);
    let nobody = fixture.token_with(TENANT, "nobody", &[]);
    fixture.call_as(&nobody, Method::GET, "suppressions", None).await.with_status(403);
}
