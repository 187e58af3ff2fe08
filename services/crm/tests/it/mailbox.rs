//! The mails of the provider `folder` in a real browser.

use crate::support::{CrmFixture, TENANT};
use onceward_browser::{Browser, Screen};
use onceward_testkit::HttpResponse;

#[tokio::test]
async fn development_mails_are_listed_and_shown_without_scripts() {
    let mut fixture = CrmFixture::start_with(|settings| settings.mailbox_page = true).await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    fixture.platform.run_consumers();
    let id = fixture.request_mail("notice", "Ada <ada@example.org>").await;
    fixture.wait_for_status(&id, "sent").await;
    let list = HttpResponse::to(fixture.http.get(format!("{}/crm/mailbox", fixture.url))).await;
    assert!(list.text.contains("Hello, Ada") && !list.text.contains("<script"), "{}", list.text);
    let browser = Browser::start("crm_mailbox", Screen::DESKTOP).await;
    browser.open(&format!("{}/crm/mailbox", fixture.url)).await;
    browser.screenshot("1-list").await;
    let (_, rest) = list.text.split_once("/crm/mailbox/").expect("a link to the mail");
    let name = &rest[..36];
    browser.open(&format!("{}/crm/mailbox/{name}", fixture.url)).await;
    browser.screenshot("2-mail").await;
    browser.close().await;
    let missing = format!("{}/crm/mailbox/{}", fixture.url, uuid::Uuid::now_v7());
    assert_eq!(HttpResponse::to(fixture.http.get(missing)).await.status, 404);
}

#[tokio::test]
async fn the_mailbox_does_not_exist_unless_it_is_enabled() {
    let fixture = CrmFixture::start().await;
    assert_eq!(HttpResponse::to(fixture.http.get(format!("{}/crm/mailbox", fixture.url))).await.status, 404);
}
