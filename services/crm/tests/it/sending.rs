//! Sending: a real SMTP server, one envelope per recipient, an artifact that proves it, and one event.

use crate::support::{TENANT, mail, start_with_smtp};
use onceward_testkit::{SmtpServer, eventually};
use serde_json::json;

#[tokio::test]
async fn a_mail_is_sent_once_with_an_artifact_an_event_and_an_audit_entry() {
    let server = SmtpServer::start();
    let fixture = start_with_smtp(&server, |_| {}).await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let contact = fixture.create_person(TENANT, "Ada Lovelace", "ada@example.org").await;
    let body = json!({ "template_id": "notice", "loan_id": "l-1", "contact_id": contact });
    let id = fixture.request_mail_with(body).await;
    let email = fixture.wait_for_status(&id, "sent").await;
    let received = server.wait_for(1).await;
    assert_eq!(received[0].rcpt_to, ["ada@example.org"]);
    assert!(received[0].mail_from.starts_with("bounce+"), "{}", received[0].mail_from);
    let text = String::from_utf8_lossy(&received[0].content).into_owned();
    assert!(text.contains("Subject: Hello, Ada Lovelace"), "{text}");
    assert!(text.contains("Auto-Submitted: auto-generated") && text.contains(&format!("Message-ID: <{id}@")));
    let sent = fixture.latest_message("crm.email.sent.v1").await;
    assert_eq!((sent["loan_id"].as_str(), sent["email_id"].as_str()), (Some("l-1"), Some(id.as_str())));
    assert_eq!(sent["artifact_id"], email["artifact_id"]);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.EMAIL.SENT").await, 1);
    let artifact = fixture.get(TENANT, &format!("emails/{id}/artifact")).await.with_status(200);
    assert_eq!((artifact["is_verified"].as_bool(), artifact["differences"].clone()), (Some(true), json!([])));
    assert_eq!(artifact["manifest"]["message_sha256"], artifact["message_sha256"]);
    let timeline = fixture.get(TENANT, &format!("contacts/{contact}/timeline")).await.with_status(200).to_string();
    assert!(timeline.contains("CRM.EMAIL.REQUESTED") && timeline.contains("CRM.EMAIL.SENT"), "{timeline}");
    let metrics = fixture.metrics().await;
    assert!(metrics.contains("crm_email_sent_total{class=\"transactional\"}"));
    assert!(metrics.contains("crm_email_requests_total{class=\"transactional\"}"));
}

#[tokio::test]
async fn the_stored_bytes_are_the_bytes_that_were_sent_and_erasing_the_contact_leaves_only_hashes() {
    let server = SmtpServer::start();
    let fixture = start_with_smtp(&server, |_| {}).await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let contact = fixture.create_person(TENANT, "Ada Lovelace", "ada@example.org").await;
    let id = fixture.request_mail_with(json!({ "template_id": "notice", "contact_id": contact })).await;
    fixture.wait_for_status(&id, "sent").await;
    let stored = fixture.get(TENANT, &format!("emails/{id}/message")).await;
    assert_eq!(stored.status, 200);
    let sent = String::from_utf8(server.wait_for(1).await[0].content.clone()).expect("ASCII");
    // aiosmtpd adds headers of its own in front.
    assert!(sent.ends_with(stored.text.split_once("\r\n").expect("lines").1), "{sent}\n---\n{}", stored.text);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.EMAIL.READ").await, 1);
    fixture.post_empty(TENANT, &format!("contacts/{contact}/erase")).await.with_status(200);
    fixture.get(TENANT, &format!("emails/{id}/message")).await.with_status(404);
    let artifact = fixture.get(TENANT, &format!("emails/{id}/artifact")).await.with_status(200);
    assert_eq!((artifact["is_erased"].as_bool(), artifact["is_verified"].as_bool()), (Some(true), Some(true)));
}

#[tokio::test]
async fn a_refused_recipient_is_the_result_of_that_recipient_alone() {
    let server = SmtpServer::start();
    let fixture = start_with_smtp(&server, |_| {}).await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let mut body = mail("notice", &["ada@example.org", "refuse-550@example.org"]);
    body["bcc"] = json!(["eve@example.org"]);
    let id = fixture.request_mail_with(body).await;
    let email = fixture.wait_for_status(&id, "partly_sent").await;
    let states: Vec<_> = email["recipients"].as_array().unwrap().iter().map(|r| r["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["accepted", "refused", "accepted"]);
    assert_eq!(email["recipients"][1]["reply_code"], 550);
    let received = server.wait_for(2).await;
    assert!(received.iter().all(|mail| mail.rcpt_to.len() == 1));
    let texts: Vec<_> = received.iter().map(|mail| String::from_utf8_lossy(&mail.content).into_owned()).collect();
    assert!(texts.iter().all(|text| !text.contains("eve@") && text.contains("refuse-550@")), "Bcc is in no header");
    assert_eq!(fixture.count_messages("crm.email.sent.v1").await, 1);
    let failed = fixture.latest_message("crm.email.failed.v1").await;
    assert_eq!((failed["error_code"].as_str(), failed["attempt_count"].as_i64()), (Some("refused"), Some(1)));
    assert_eq!(fixture.count_dead_letters().await, 0);
}

#[tokio::test]
async fn a_deferred_mail_is_reported_retried_and_becomes_a_dead_letter_after_the_last_attempt() {
    let server = SmtpServer::start();
    let fixture = start_with_smtp(&server, |settings| settings.attempts = 2).await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let id = fixture.request_mail("notice", "defer-451@example.org").await;
    let deferred = eventually("the first attempt failed", || async {
        (fixture.count_messages("crm.email.failed.v1").await == 1).then_some(())
    });
    deferred.await;
    eventually("the message waits for its next attempt", || async {
        let sql = "SELECT count(*) FROM onceward.deferred WHERE state = 'retry' AND attempts = 1 AND due_at > now()";
        (fixture.query::<i64>(sql, &[]).await == 1).then_some(())
    })
    .await;
    assert_eq!(fixture.get(TENANT, &format!("emails/{id}")).await.with_status(200)["status"], "sending");
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.EMAIL.FAILED").await, 1);
    fixture.execute("UPDATE onceward.deferred SET due_at = now()").await;
    let email = fixture.wait_for_status(&id, "failed").await;
    assert_eq!((email["attempts"].as_i64(), email["recipients"][0]["state"].as_str()), (Some(2), Some("failed")));
    eventually("it is a dead letter", || async { (fixture.count_dead_letters().await == 1).then_some(()) }).await;
    assert_eq!(fixture.count_messages("crm.email.failed.v1").await, 2);
}

#[tokio::test]
async fn a_recipient_suppressed_after_the_request_is_neither_sent_nor_a_failure() {
    let server = SmtpServer::start();
    let mut fixture = crate::support::CrmFixture::start_with(|settings| {
        settings.providers = "smtp".to_owned();
        settings.smtp_host = "127.0.0.1".to_owned();
        settings.smtp_port = server.port();
        settings.smtp_tls = "none".to_owned();
    })
    .await;
    fixture.create_template(TENANT, "news", "relationship").await;
    let contact = fixture.create_person(TENANT, "Ada Lovelace", "ada@example.org").await;
    let id = fixture.request_mail("news", "ada@example.org").await;
    let dnc = json!({ "class": "*", "reason": "asked by phone" });
    fixture.post(TENANT, &format!("contacts/{contact}/do-not-contact"), dnc).await.with_status(201);
    fixture.platform.run_consumers();
    let email = fixture.wait_for_status(&id, "suppressed").await;
    assert_eq!(email["recipients"][0]["reason"], "do_not_contact");
    assert_eq!(fixture.count_messages("crm.email.suppressed.v1").await, 1);
    assert_eq!(fixture.count_messages("crm.email.failed.v1").await, 0);
    assert_eq!((server.received().len(), fixture.count_dead_letters().await), (0, 0));
}

#[tokio::test]
async fn a_mail_is_not_sent_after_its_latest_time() {
    let server = SmtpServer::start();
    let mut fixture = crate::support::CrmFixture::start().await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let mut body = mail("notice", &["ada@example.org"]);
    body["not_after"] = json!(jiff::Timestamp::now() + jiff::SignedDuration::from_secs(600));
    let id = fixture.request_mail_with(body).await;
    fixture.execute("UPDATE crm.email SET not_after = now() - interval '1 second'").await;
    fixture.platform.run_consumers();
    fixture.wait_for_status(&id, "expired").await;
    assert_eq!((server.received().len(), fixture.mails_in_folder().len()), (0, 0));
}

#[tokio::test]
async fn a_mail_that_another_service_requests_is_registered_and_sent() {
    let mut fixture = crate::support::CrmFixture::start().await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    fixture.platform.run_consumers();
    let payload = json!({
        "template_id": "notice", "subject": "From elsewhere", "to": ["ada@example.org"], "correlation_id": "story-1",
        "variables": { "contact": { "first_name": "Ada" } },
    });
    let sql =
        "SELECT onceward.enqueue('acme', 'notifications.topic:crm.email.requested.v1', 'crm.email.requested.v1', $1)";
    fixture.owner.execute(sql, &[&payload]).await.expect("it is published");
    let mails = eventually("it is written", || async {
        let mails = fixture.mails_in_folder();
        (!mails.is_empty()).then_some(mails)
    })
    .await;
    assert!(mails[0].contains("Subject: From elsewhere"));
    eventually("it is reported", || async { (fixture.count_messages("crm.email.sent.v1").await == 1).then_some(()) })
        .await;
}

#[tokio::test]
async fn a_mail_that_cannot_be_rendered_is_a_dead_letter_at_once() {
    let mut fixture = crate::support::CrmFixture::start().await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    fixture.platform.run_consumers();
    let payload = json!({
        "template_id": "notice", "subject": "", "to": ["ada@example.org"], "correlation_id": "story-1", "variables": {},
    });
    let sql =
        "SELECT onceward.enqueue('acme', 'notifications.topic:crm.email.requested.v1', 'crm.email.requested.v1', $1)";
    fixture.owner.execute(sql, &[&payload]).await.expect("it is published");
    eventually("it is a dead letter", || async { (fixture.count_dead_letters().await == 1).then_some(()) }).await;
    let failed = fixture.latest_message("crm.email.failed.v1").await;
    assert_eq!(failed["error_code"], "rendering");
    assert!(failed["error_message"].as_str().is_some_and(|text| text.contains("contact.first_name")), "{failed}");
}

#[tokio::test]
async fn a_test_send_renders_the_sample_variables() {
    let mut fixture = crate::support::CrmFixture::start().await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    fixture.platform.run_consumers();
    fixture.post(TENANT, "templates/notice/test-send", json!({ "to": "not an address" })).await.with_status(422);
    fixture.post(TENANT, "templates/missing/test-send", json!({ "to": "me@example.org" })).await.with_status(404);
    let sent =
        fixture.post(TENANT, "templates/notice/test-send", json!({ "to": "me@example.org" })).await.with_status(202);
    fixture.wait_for_status(sent["email_id"].as_str().expect("an id"), "sent").await;
    assert!(fixture.mails_in_folder()[0].contains("Subject: Hello, Ada"));
}

#[tokio::test]
async fn a_mail_is_signed_with_both_active_keys_of_its_sender_and_unsubscribed_by_one_click() {
    let server = SmtpServer::start();
    let fixture = start_with_smtp(&server, |_| {}).await;
    fixture.create_template(TENANT, "news", "marketing").await;
    let sender = json!({ "from_address": "loans@acme.example", "from_name": "Acme Loans" });
    fixture.put(TENANT, "senders/acme.example", sender).await.with_status(200);
    let rsa = include_str!("../../../mail/tests/it/data/rsa-2048-for-tests.pem");
    for (selector, body) in
        [("ed", json!({ "selector": "ed" })), ("rsa", json!({ "selector": "rsa", "private_key_pem": rsa }))]
    {
        fixture.post(TENANT, "senders/acme.example/dkim", body).await.with_status(201);
        fixture.post_empty(TENANT, &format!("senders/acme.example/dkim/{selector}/activate")).await.with_status(200);
    }
    let id = fixture.request_mail("news", "ada@example.org").await;
    fixture.wait_for_status(&id, "sent").await;
    let received = server.wait_for(1).await;
    let text = String::from_utf8_lossy(&received[0].content).into_owned();
    assert!(received[0].mail_from.ends_with("@acme.example"), "{}", received[0].mail_from);
    for part in ["s=ed;", "s=rsa;", "a=ed25519-sha256", "a=rsa-sha256", "From: Acme Loans <loans@acme.example>"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(text.contains("List-Unsubscribe-Post: List-Unsubscribe=One-Click"));
    let link = text.lines().find_map(|line| line.strip_prefix("List-Unsubscribe: <")).expect("a link on one line");
    let path = link.trim_end().trim_end_matches('>').trim_start_matches("https://mail.onceward.example");
    let click = fixture.http.post(format!("{}{path}", fixture.url)).body("List-Unsubscribe=One-Click");
    let click = click.header("content-type", "application/x-www-form-urlencoded").send().await.expect("an answer");
    assert_eq!(click.status().as_u16(), 200);
    fixture.post(TENANT, "emails", mail("news", &["ADA@example.org"])).await.with_status(409);
}
