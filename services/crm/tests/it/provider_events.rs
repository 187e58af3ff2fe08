//! Events of the provider: only signed ones, only about our mails, for the right tenant.

use crate::support::{CrmFixture, SentMail, WEBHOOK_SECRET, sign_event};
use jiff::Timestamp;
use serde_json::{Value, json};

async fn start() -> CrmFixture {
    CrmFixture::start_with(|settings| settings.resend_webhook_secret = WEBHOOK_SECRET.to_owned()).await
}

fn delivered(data: Value) -> Value {
    json!({ "type": "email.delivered", "created_at": "2026-11-18T09:00:00.000Z", "data": data })
}

fn with_provider_id(mail: &SentMail) -> Value {
    delivered(json!({ "email_id": format!("provider-{}-0", mail.id), "to": ["ada@example.org"] }))
}

#[tokio::test]
async fn an_event_without_a_valid_and_recent_signature_is_refused() {
    let fixture = start().await;
    let mail = fixture.insert_mail("acme", "marketing", &["ada@example.org"]).await;
    let body = with_provider_id(&mail).to_string();
    let now = Timestamp::now().as_second();
    let at = now.to_string();
    let old = (now - 301).to_string();
    let signature = sign_event("msg_1", &at, &body);
    for headers in [
        ["msg_1", at.as_str(), "v1,AAAA"],
        ["msg_1", &at, ""],
        ["msg_2", &at, &signature],
        ["", &at, &sign_event("", &at, &body)],
        ["msg_1", &old, &sign_event("msg_1", &old, &body)],
        ["msg_1", "soon", &signature],
    ] {
        let refused = fixture.send_signed_event(headers, body.clone()).await.with_status(401);
        assert_eq!(refused["type"], "/problems/unauthorized", "{headers:?}");
    }
    let changed = fixture.send_signed_event(["msg_1", &at, &signature], body.replace("delivered", "bounced")).await;
    changed.with_status(401);
    fixture.send_signed_event(["msg_1", &at, &signature], "x".repeat(300_000)).await.with_status(413);
    assert_eq!(fixture.count_reports(&mail).await, 0);
    let several = format!("v1,AAAA {signature}");
    fixture.send_signed_event(["msg_1", &at, &several], body).await.with_status(200);
    assert_eq!(fixture.count_reports(&mail).await, 1);
}

#[tokio::test]
async fn without_a_secret_every_event_is_refused() {
    let fixture = CrmFixture::start().await;
    fixture.send_event("msg_1", &delivered(json!({}))).await.with_status(401);
}

#[tokio::test]
async fn a_mail_is_found_by_our_tag_and_else_by_the_id_of_the_provider() {
    let fixture = start().await;
    let acme = fixture.insert_mail("acme", "marketing", &["ada@example.org", "bob@example.org"]).await;
    let globex = fixture.insert_mail("globex", "marketing", &["ada@example.org"]).await;
    // The tag decides, whatever the provider's id says.
    let data = json!({
        "email_id": format!("provider-{}-0", globex.id),
        "tags": [{ "name": "onceward_ref", "value": acme.token(1) }],
    });
    let answer = fixture.send_event("msg_1", &delivered(data)).await.with_status(200);
    assert_eq!(answer["status"], "recorded");
    let sql = "SELECT tenant_id || position FROM crm.feedback ORDER BY received_at DESC LIMIT 1";
    assert_eq!(fixture.query::<String>(sql, &[]).await, "acme1");
    fixture.send_event("msg_2", &with_provider_id(&globex)).await.with_status(200);
    assert_eq!(fixture.query::<String>(sql, &[]).await, "globex0");
    assert_eq!(fixture.count_audit_entries("globex", "CRM.EMAIL.DELIVERED").await, 1);
    assert_eq!(fixture.published("crm.email.delivered.v1").await.len(), 2);
}

#[tokio::test]
async fn events_about_other_mails_are_ignored() {
    let fixture = start().await;
    let mail = fixture.insert_mail("acme", "marketing", &["ada@example.org"]).await;
    let unknown = SentMail { id: uuid::Uuid::now_v7() };
    let forged = format!("{}A", &mail.token(0)[1..]);
    for (number, data) in [
        json!({ "email_id": "another" }),
        json!({}),
        json!({ "tags": { "onceward_ref": unknown.token(0) } }),
        json!({ "tags": { "onceward_ref": mail.token(7) } }),
        json!({ "tags": { "onceward_ref": forged } }),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = fixture.send_event(&format!("msg_{number}"), &delivered(data)).await.with_status(200);
        assert_eq!(answer["status"], "ignored", "{number}");
    }
    let sent = json!({ "type": "email.sent", "data": { "tags": { "onceward_ref": mail.token(0) } } });
    assert_eq!(fixture.send_event("msg_s", &sent).await.with_status(200)["status"], "ignored");
    // Two recipients with the same id of the provider: neither is blamed.
    let other = fixture.insert_mail("globex", "marketing", &["bob@example.org"]).await;
    fixture.execute("UPDATE crm.email_recipient SET provider_id = 'same'").await;
    let answer = fixture.send_event("msg_t", &delivered(json!({ "email_id": "same" }))).await.with_status(200);
    assert_eq!(answer["status"], "ignored");
    assert_eq!(fixture.count_reports(&mail).await + fixture.count_reports(&other).await, 0);
}
