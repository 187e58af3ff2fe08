//! One-click unsubscription, and the preference page in a real browser.

use crate::support::{CrmFixture, SentMail};
use onceward_browser::{Browser, Screen};
use onceward_testkit::{HttpResponse, eventually};
use reqwest::{RequestBuilder, redirect::Policy};

const TENANT: &str = "acme";
const URLENCODED: &str = "application/x-www-form-urlencoded";

fn http() -> reqwest::Client {
    reqwest::Client::builder().redirect(Policy::none()).build().expect("a client")
}

fn one_click(fixture: &CrmFixture, token: &str) -> RequestBuilder {
    let request = http().post(format!("{}/crm/u/{token}", fixture.url));
    request.header("content-type", URLENCODED).body("List-Unsubscribe=One-Click")
}

fn unsubscribed(class: &str) -> (String, String, Option<jiff::Timestamp>) {
    (class.to_owned(), "unsubscribed".to_owned(), None)
}

#[tokio::test]
async fn one_click_unsubscribes_from_the_class_of_the_mail_and_may_be_repeated() {
    let fixture = CrmFixture::start().await;
    let mail = fixture.insert_mail(TENANT, "marketing", &["ada@example.org"]).await;
    for origin in [None, Some("https://mail.example.com"), Some("null")] {
        let mut request = one_click(&fixture, &mail.token(0));
        if let Some(origin) = origin {
            request = request.header("origin", origin).header("sec-fetch-site", "cross-site");
        }
        let answer = HttpResponse::to(request).await;
        assert_eq!(answer.status, 200, "{origin:?}: {}", answer.text);
        assert_eq!((answer.header("location"), answer.header("set-cookie")), (None, None));
        // The effect precedes the answer.
        assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, [unsubscribed("marketing")]);
    }
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.SUPPRESSION.ADDED").await, 1);
    let other = fixture.insert_mail(TENANT, "relationship", &["Ada@example.org"]).await;
    let boundary = "----b";
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--{boundary}--\r\n"
    );
    let request = http().post(format!("{}/crm/u/{}", fixture.url, other.token(0)));
    let request = request.header("content-type", format!("multipart/form-data; boundary={boundary}")).body(body);
    assert_eq!(HttpResponse::to(request).await.status, 200);
    let both = [unsubscribed("marketing"), unsubscribed("relationship")];
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, both);
}

#[tokio::test]
async fn following_the_link_changes_nothing_and_shows_the_page() {
    let fixture = CrmFixture::start().await;
    let mail = fixture.insert_mail(TENANT, "marketing", &["ada@example.org"]).await;
    let page = HttpResponse::to(http().get(format!("{}/crm/u/{}", fixture.url, mail.token(0)))).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("a•••@example.org") && !page.text.contains("ada@example.org"));
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("content-type", "text/html; charset=utf-8"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(!page.text.contains("<script"));
    assert_eq!(page.header("set-cookie"), None);
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, []);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.SUPPRESSION.ADDED").await, 0);
}

#[tokio::test]
async fn links_that_we_did_not_sign_and_incomplete_requests_change_nothing() {
    let fixture = CrmFixture::start().await;
    let mail = fixture.insert_mail(TENANT, "marketing", &["ada@example.org"]).await;
    let unknown = SentMail { id: uuid::Uuid::now_v7() };
    let token = mail.token(0);
    let changed = format!("{}{}", if token.starts_with('B') { 'C' } else { 'B' }, &token[1..]);
    for token in ["x", &changed, &token[..token.len() - 1], &unknown.token(0), &mail.token(5)] {
        assert_eq!(HttpResponse::to(one_click(&fixture, token)).await.status, 404, "{token}");
        let page = http().get(format!("{}/crm/u/{token}", fixture.url));
        assert_eq!(HttpResponse::to(page).await.status, 404, "{token}");
        let save = http().post(format!("{}/crm/u/{token}/preferences", fixture.url)).body("preferences=1");
        assert_eq!(HttpResponse::to(save).await.status, 404, "{token}");
    }
    let empty = http().post(format!("{}/crm/u/{token}", fixture.url)).body("");
    assert_eq!(HttpResponse::to(empty).await.status, 400);
    let empty = http().post(format!("{}/crm/u/{token}/preferences", fixture.url)).body("");
    assert_eq!(HttpResponse::to(empty).await.status, 400);
    let legal = fixture.insert_mail(TENANT, "legal", &["ada@example.org"]).await;
    assert_eq!(HttpResponse::to(one_click(&fixture, &legal.token(0))).await.status, 404);
    let large = http().post(format!("{}/crm/u/{token}", fixture.url)).body("x".repeat(100_000));
    assert_eq!(HttpResponse::to(large).await.status, 413);
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, []);
}

#[tokio::test]
async fn a_link_reaches_the_tenant_of_its_mail_only() {
    let fixture = CrmFixture::start().await;
    let acme = fixture.insert_mail("acme", "marketing", &["ada@example.org"]).await;
    fixture.insert_mail("globex", "marketing", &["ada@example.org"]).await;
    assert_eq!(HttpResponse::to(one_click(&fixture, &acme.token(0))).await.status, 200);
    assert_eq!(fixture.suppressions("acme", "ada@example.org").await, [unsubscribed("marketing")]);
    assert_eq!(fixture.suppressions("globex", "ada@example.org").await, []);
}

async fn wait_for_heading(browser: &Browser, heading: &str) {
    let shown = || async { browser.text("h1").await.filter(|text| text == heading) };
    eventually(&format!("the page {heading:?} is shown"), shown).await;
}

async fn is_checked(browser: &Browser, class: &str) -> bool {
    browser.find(&format!("#{class}")).await.is_selected().await.expect("a check box")
}

async fn click(browser: &Browser, css: &str) {
    browser.find(css).await.click().await.expect("the element can be clicked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipient_changes_preferences_on_a_phone_without_scripts() {
    let fixture = CrmFixture::start().await;
    let mail = fixture.insert_mail(TENANT, "marketing", &["ada@example.org"]).await;
    let browser = Browser::start("crm_preferences", Screen::PHONE).await;
    let url = format!("{}/crm/u/{}", fixture.url, mail.token(0));
    browser.open(&url).await;
    wait_for_heading(&browser, "Email preferences").await;
    assert!(is_checked(&browser, "marketing").await && is_checked(&browser, "relationship").await);
    browser.screenshot("1-preferences").await;
    click(&browser, "label[for=marketing]").await;
    click(&browser, "button").await;
    wait_for_heading(&browser, "Your preferences are saved").await;
    assert!(!is_checked(&browser, "marketing").await && is_checked(&browser, "relationship").await);
    let summary = browser.text(".summary").await.expect("a summary");
    assert!(
        summary.contains("News and offers: unsubscribed") && summary.contains("reminders: subscribed"),
        "{summary}"
    );
    browser.screenshot("2-saved").await;
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, [unsubscribed("marketing")]);

    // Subscribing again, from the link in the mail.
    browser.open(&url).await;
    click(&browser, "label[for=marketing]").await;
    click(&browser, "button").await;
    wait_for_heading(&browser, "Your preferences are saved").await;
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, []);
    assert_eq!(fixture.count_audit_entries(TENANT, "CRM.SUPPRESSION.REMOVED").await, 1);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recipient_unsubscribes_from_everything_in_dark_mode() {
    let fixture = CrmFixture::start().await;
    let mail = fixture.insert_mail(TENANT, "relationship", &["ada@example.org"]).await;
    let browser = Browser::start("crm_preferences_dark", Screen::DESKTOP.dark()).await;
    browser.open(&format!("{}/crm/u/{}", fixture.url, mail.token(0))).await;
    browser.screenshot("1-preferences").await;
    click(&browser, "button.second").await;
    wait_for_heading(&browser, "Your preferences are saved").await;
    browser.screenshot("2-saved").await;
    browser.close().await;
    let both = [unsubscribed("marketing"), unsubscribed("relationship")];
    assert_eq!(fixture.suppressions(TENANT, "ada@example.org").await, both);
}
