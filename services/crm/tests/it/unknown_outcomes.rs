//! What is handed over and not answered is unknown: never sent twice, and always accounted for.

use crate::support::{CrmFixture, TENANT, mail, start_with_smtp};
use onceward_testkit::{SmtpServer, eventually};
use serde_json::json;

#[tokio::test]
async fn a_connection_lost_after_the_final_dot_leaves_the_outcome_unknown_and_sends_nothing_again() {
    let server = SmtpServer::start();
    let fixture = start_with_smtp(&server, |_| {}).await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let id = fixture.request_mail("notice", "drop-after-dot@example.org").await;
    let email = fixture.wait_for_status(&id, "unknown").await;
    assert_eq!(email["recipients"][0]["state"], "unknown");
    assert_eq!(fixture.latest_message("crm.email.failed.v1").await["error_code"], "unknown");
    fixture.execute("UPDATE onceward.deferred SET due_at = now()").await;
    let other = fixture.request_mail("notice", "ada@example.org").await;
    fixture.wait_for_status(&other, "sent").await;
    assert_eq!(server.received().len(), 2, "one mail for each request");
    assert_eq!(fixture.count_dead_letters().await, 0);
    let path = format!("emails/{id}/recipients/0/resolve");
    let resolved = fixture.post(TENANT, &path, json!({ "sent": true, "reason": "seen in the provider's log" })).await;
    assert_eq!(resolved.with_status(200)["status"], "sent");
    fixture.post(TENANT, &path, json!({ "sent": false, "reason": "again" })).await.with_status(404);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.EMAIL.RESOLVED").await, 1);
}

#[tokio::test]
async fn mail_that_must_arrive_is_sent_again_with_the_same_bytes_after_an_unknown_outcome() {
    let server = SmtpServer::start();
    let fixture = start_with_smtp(&server, |settings| settings.attempts = 2).await;
    fixture.create_template(TENANT, "password", "security").await;
    let id = fixture.request_mail("password", "drop-after-dot@example.org").await;
    eventually("it was sent twice", || async {
        fixture.execute("UPDATE onceward.deferred SET due_at = now()").await;
        (server.received().len() == 2).then_some(())
    })
    .await;
    fixture.wait_for_status(&id, "failed").await;
    let received = server.received();
    let body = |index: usize| String::from_utf8_lossy(&received[index].content).into_owned();
    let from = |text: String| text[text.find("Message-ID").expect("a Message-ID")..].to_owned();
    assert_eq!(from(body(0)), from(body(1)), "the same bytes");
}

#[tokio::test]
async fn a_worker_that_dies_after_the_handover_leaves_unknown_and_one_mail() {
    let server = SmtpServer::start();
    let mut fixture = CrmFixture::start_with(|settings| {
        settings.providers = "smtp".to_owned();
        settings.smtp_host = "127.0.0.1".to_owned();
        settings.smtp_port = server.port();
        settings.smtp_tls = "none".to_owned();
    })
    .await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    let (mut killed, _stop) = fixture.platform.another_instance();
    killed.run_consumers();
    // The server stores the mail and takes its time to answer.
    let id = fixture.request_mail_with(mail("notice", &["slow-60000@example.org"])).await;
    eventually("it is handed over", || async {
        let sql = "SELECT count(*) FROM crm.email_recipient WHERE state = 'handed_over'";
        (fixture.query::<i64>(sql, &[]).await == 1).then_some(())
    })
    .await;
    drop(killed);
    fixture.execute("UPDATE onceward.deferred SET due_at = now()").await;
    fixture.platform.run_consumers();
    let email = fixture.wait_for_status(&id, "unknown").await;
    assert!(email["recipients"][0]["reason"].as_str().is_some_and(|reason| reason.contains("died")), "{email}");
    assert!(server.received().len() <= 1);
    assert_eq!(fixture.count_dead_letters().await, 0);
}
