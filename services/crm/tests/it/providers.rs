//! Providers: the HTTP provider by its protocol, and the order in which providers are asked.

use crate::support::{API_KEY, CrmFixture, ResendSandbox, TENANT, mail};
use onceward_testkit::eventually;
use serde_json::json;

async fn start(sandbox: &ResendSandbox, key: &str, providers: &str) -> CrmFixture {
    let mut fixture = CrmFixture::start_with(|settings| {
        settings.providers = providers.to_owned();
        settings.resend_url.clone_from(&sandbox.url);
        settings.resend_key = key.to_owned();
        settings.retry_ms = 20;
    })
    .await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    fixture.platform.run_consumers();
    fixture
}

#[tokio::test]
async fn the_http_provider_receives_the_content_of_the_artifact_and_its_id_is_stored() {
    let sandbox = ResendSandbox::start().await;
    let fixture = start(&sandbox, API_KEY, "resend").await;
    let mut body = mail("notice", &["Ada <ada@example.org>"]);
    body["attachments"] = json!([{ "filename": "note.txt", "content": "aGVsbG8gd29ybGQK", "type": "text/plain" }]);
    let id = fixture.request_mail_with(body).await;
    let email = fixture.wait_for_status(&id, "sent").await;
    let taken = sandbox.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!(
        (taken[0]["to"].clone(), taken[0]["subject"].clone()),
        (json!(["ada@example.org"]), json!("Hello, Ada"))
    );
    assert!(taken[0]["html"].as_str().is_some_and(|html| html.contains("<b>Ada</b>")), "{}", taken[0]);
    assert_eq!(taken[0]["attachments"][0]["filename"], "note.txt");
    assert_eq!(taken[0]["attachments"][0]["content"], "aGVsbG8gd29ybGQK");
    assert!(email["recipients"][0]["provider_id"].as_str().is_some_and(|id| id.len() == 36));
}

#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_again_with_the_same_key_and_makes_no_second_mail() {
    let sandbox = ResendSandbox::start().await;
    let fixture = start(&sandbox, API_KEY, "resend").await;
    let id = fixture.request_mail("notice", "lost@example.org").await;
    fixture.wait_for_status(&id, "sent").await;
    assert_eq!((sandbox.taken().len(), sandbox.requests()), (1, 2));
}

#[tokio::test]
async fn the_http_providers_refusals_and_limits_are_told_apart() {
    let sandbox = ResendSandbox::start().await;
    let fixture = start(&sandbox, API_KEY, "resend").await;
    let refused = fixture.request_mail("notice", "invalid@example.org").await;
    assert_eq!(fixture.wait_for_status(&refused, "failed").await["recipients"][0]["reply_code"], 422);
    let limited = fixture.request_mail("notice", "limited@example.org").await;
    eventually("it is sent after its pause", || async {
        fixture.execute("UPDATE onceward.deferred SET due_at = now() WHERE state <> 'leased'").await;
        let email = fixture.get(TENANT, &format!("emails/{limited}")).await.with_status(200);
        (email["status"] == "sent").then_some(())
    })
    .await;
    assert_eq!(sandbox.taken().len(), 1);
}

#[tokio::test]
async fn the_next_provider_is_asked_if_the_first_refuses_us() {
    let sandbox = ResendSandbox::start().await;
    let fixture = start(&sandbox, "a wrong key", "resend folder").await;
    let id = fixture.request_mail("notice", "ada@example.org").await;
    let email = fixture.wait_for_status(&id, "sent").await;
    assert_eq!(email["recipients"][0]["provider"], "folder");
    assert_eq!((sandbox.taken().len(), fixture.mails_in_folder().len()), (0, 1));
}
