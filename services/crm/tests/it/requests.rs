//! Requesting a mail: one message, one audit entry, nothing rendered, and clear rejections that change nothing.

use crate::support::{CrmFixture, TENANT, mail};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

async fn fixture() -> CrmFixture {
    let fixture = CrmFixture::start().await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    fixture.create_template(TENANT, "news", "marketing").await;
    fixture
}

/// Sends a request that must be rejected and must leave nothing behind.
async fn rejected(fixture: &CrmFixture, body: Value, status: u16, words: &str) {
    let response = fixture.post(TENANT, "emails", body).await;
    let text = response.with_status(status).to_string();
    assert!(text.contains(words), "{words:?} is missing in {text}");
    assert_eq!(fixture.count_messages("crm.email.requested.v1").await, 0);
    assert_eq!(fixture.query::<i64>("SELECT count(*) FROM crm.email", &[]).await, 0);
}

#[tokio::test]
async fn a_request_returns_202_with_one_unpublished_message_and_one_audit_entry() {
    let fixture = fixture().await;
    let body = json!({
        "template_id": "notice", "loan_id": "l-1", "to": ["Ada <ada@example.org>"], "cc": ["bob@example.org"],
        "variables": { "contact": { "first_name": "Ada" } },
    });
    let accepted = fixture.post(TENANT, "emails", body).await.with_status(202);
    assert_eq!(fixture.count_messages("crm.email.requested.v1").await, 1);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.EMAIL.REQUESTED").await, 1);
    let message = fixture.latest_message("crm.email.requested.v1").await;
    for member in ["loan_id", "user_id", "template_id", "subject", "to", "cc", "variables", "correlation_id"] {
        assert!(!message[member].is_null(), "{member} is missing in {message}");
    }
    assert_eq!(message["template_version"], 1);
    assert_eq!(message["variables"], json!({ "contact": { "first_name": "Ada" } }));
    assert_eq!(message["correlation_id"], accepted["correlationId"]);
    let email =
        fixture.get(TENANT, &format!("emails/{}", accepted["email_id"].as_str().unwrap())).await.with_status(200);
    assert_eq!((email["status"].as_str(), email["recipients"].as_array().map(Vec::len)), (Some("queued"), Some(2)));
    assert_eq!(fixture.query::<i64>("SELECT count(*) FROM crm.artifact", &[]).await, 0, "nothing was rendered");
}

#[tokio::test]
async fn the_same_key_sixty_four_times_at_once_requests_one_mail() {
    let fixture = fixture().await;
    let (token, key) = (fixture.platform.token(TENANT), Uuid::now_v7().to_string());
    let body = mail("notice", &["ada@example.org"]);
    let send = || {
        let request = fixture.http.request(Method::POST, format!("{}/api/crm/emails", fixture.url));
        request.bearer_auth(&token).header("idempotency-key", &key).json(&body).send()
    };
    let responses = futures_util::future::join_all((0..64).map(|_| send())).await;
    let statuses: Vec<u16> =
        responses.into_iter().map(|response| response.expect("an answer").status().as_u16()).collect();
    assert!(statuses.iter().all(|status| matches!(status, 202 | 409)), "{statuses:?}");
    assert!(statuses.contains(&202));
    assert_eq!(fixture.count_messages("crm.email.requested.v1").await, 1);
    assert_eq!(fixture.query::<i64>("SELECT count(*) FROM crm.email", &[]).await, 1);
}

#[tokio::test]
async fn wrong_requests_are_rejected_with_the_member_and_leave_nothing_behind() {
    let fixture = fixture().await;
    let with = |member: &str, value: Value| {
        let mut body = mail("notice", &["ada@example.org"]);
        body[member] = value;
        body
    };
    rejected(&fixture, with("to", json!([])), 422, "/to").await;
    rejected(&fixture, with("to", json!(["ada@example.org>\r\nRCPT TO:<x@y.example>"])), 422, "/to/0").await;
    rejected(&fixture, with("cc", json!(["A\nB <x@example.org>"])), 422, "/cc/0").await;
    rejected(&fixture, with("subject", json!("Hi\r\nBcc: x@y.example")), 422, "/subject").await;
    rejected(&fixture, with("not_after", json!("2020-01-01T00:00:00Z")), 422, "/not_after").await;
    rejected(&fixture, with("template_id", json!("missing")), 422, "/template_id").await;
    rejected(&fixture, with("template_version", json!(7)), 422, "/template_id").await;
    rejected(&fixture, with("contact_id", json!(Uuid::now_v7())), 422, "/contact_id").await;
    rejected(&fixture, with("variables", json!({})), 422, "contact/first_name").await;
    rejected(&fixture, with("variables", json!({ "contact": { "first_name": null } })), 422, "contact/first_name")
        .await;
    let misspelt = json!({ "contact": { "first_name": "Ada", "frist_name": "Ada" } });
    rejected(&fixture, with("variables", misspelt), 422, "first_name").await;
    let two = json!({ "template_id": "news", "to": ["a@example.org", "b@example.org"],
        "variables": { "contact": { "first_name": "Ada" } } });
    rejected(&fixture, two, 422, "one recipient").await;
    let file =
        |name: &str, content: &str, media: &str| json!([{ "filename": name, "content": content, "type": media }]);
    rejected(&fixture, with("attachments", file("a.txt", "%%%", "text/plain")), 422, "base64").await;
    rejected(
        &fixture,
        with("attachments", file("a.pdf", "aGVsbG8gd29ybGQ=", "application/pdf")),
        422,
        "/attachments/0",
    )
    .await;
    rejected(
        &fixture,
        with("attachments", file("run.exe", "TVqQAAMAAAAEAAAA", "application/octet-stream")),
        422,
        "/attachments/0",
    )
    .await;
}

#[tokio::test]
async fn a_denied_recipient_is_a_409_with_its_reason_and_an_audit_entry_but_no_message() {
    let fixture = fixture().await;
    let contact = fixture.create_person(TENANT, "Ada Lovelace", "ada@example.org").await;
    let dnc = json!({ "class": "marketing", "reason": "asked by phone" });
    fixture.post(TENANT, &format!("contacts/{contact}/do-not-contact"), dnc).await.with_status(201);
    rejected(&fixture, mail("news", &["ADA@example.org"]), 409, "asked by phone").await;
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.EMAIL.DENIED").await, 1);
    fixture.request_mail("notice", "ada@example.org").await;
    assert!(fixture.metrics().await.contains("crm_email_denied_total{reason=\"do_not_contact\"}"));
}

#[tokio::test]
async fn only_owners_and_assignees_of_a_loan_may_write_about_it() {
    let fixture = fixture().await;
    let token = fixture.token_with(TENANT, "clara", &["crm:write", "crm:read"]);
    let body = mail("notice", &["ada@example.org"]);
    let send = || fixture.call_as(&token, Method::POST, "loans/l-1/send-email", Some(&body));
    send().await.with_status(403);
    assert_eq!(fixture.count_messages("crm.email.requested.v1").await, 0);
    let assignment = "INSERT INTO crm.assignment (tenant_id, object_type, object_id, user_id, duty)
        VALUES ('acme', 'loan', 'l-1', 'clara', 'assignee')";
    fixture.execute(assignment).await;
    send().await.with_status(202);
    let wrong = fixture.call_as(&token, Method::POST, "loans/l-2/send-email", Some(&body)).await;
    wrong.with_status(403);
    let reader = fixture.token_with(TENANT, "clara", &["crm:read"]);
    fixture.call_as(&reader, Method::POST, "loans/l-1/send-email", Some(&body)).await.with_status(403);
}

#[tokio::test]
async fn a_large_attachment_travels_by_its_hash_and_an_abandoned_one_is_swept() {
    let mut fixture = CrmFixture::start_with(|settings| {
        settings.attachment_inline_bytes = 1_000;
        settings.sweep_after_minutes = 0;
    })
    .await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let content = "line of a large text file\n".repeat(200);
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, content.as_bytes());
    let mut body = mail("notice", &["ada@example.org"]);
    body["attachments"] = json!([{ "filename": "large.txt", "content": encoded, "type": "text/plain" }]);
    fixture.request_mail_with(body.clone()).await;
    let message = fixture.latest_message("crm.email.requested.v1").await;
    let file = &message["attachments"][0];
    assert!(file["content"].is_null() && file["sha256"].as_str().is_some_and(|hash| hash.len() == 64), "{file}");
    assert_eq!(fixture.query::<i64>("SELECT count(*) FROM crm.pending_object", &[]).await, 0);
    // A request that stores its file and is then denied commits nothing else.
    let tenant = "INSERT INTO crm.pending_object (tenant_id, object_key, stored_at)
        VALUES ('acme', 'crm/acme/abandoned', now() - interval '1 hour')";
    fixture.execute(tenant).await;
    let abandoned = fixture.folder.join("objects/crm/acme/abandoned");
    std::fs::write(&abandoned, b"sealed").expect("the folder exists");
    fixture.platform.run_consumers();
    fixture.publish_sweep_tick().await;
    onceward_testkit::eventually("the object is gone", || async { (!abandoned.exists()).then_some(()) }).await;
    onceward_testkit::eventually("its row is gone", || async {
        (fixture.query::<i64>("SELECT count(*) FROM crm.pending_object", &[]).await == 0).then_some(())
    })
    .await;
}
