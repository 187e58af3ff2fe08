//! The pages in a real browser: on a desktop and on a phone, in light and dark mode.

use crate::support::services;
use onceward_browser::{Browser, Screen};
use onceward_testkit::TestPlatform;

#[tokio::test]
async fn pages_fit_their_screens_and_operations_can_be_opened() {
    let mut platform = TestPlatform::new(services()).await;
    let url = platform.serve_http().await;
    for (screen, name) in [
        (Screen::DESKTOP, "desktop"),
        (Screen::DESKTOP.dark(), "desktop-dark"),
        (Screen::PHONE, "phone"),
        (Screen::PHONE.dark(), "phone-dark"),
    ] {
        let browser = Browser::start("pages", screen).await;
        for (path, shot) in [("/", "landing"), ("/docs", "docs"), ("/problems", "problems")] {
            browser.open(&format!("{url}{path}")).await;
            check_width(&browser, path).await;
            browser.screenshot(&format!("{shot}-{name}")).await;
        }
        browser.open(&format!("{url}/problems/idempotency-key-reused")).await;
        let heading = browser.text("h1").await;
        assert_eq!(heading.as_deref(), Some("The Idempotency-Key was used for another body (422)"));
        check_width(&browser, "a problem").await;
        browser.screenshot(&format!("problem-{name}")).await;
        browser.open(&format!("{url}/docs#orders")).await;
        browser.find("#orders summary").await.click().await.expect("it opens");
        assert!(browser.text("#orders details .body").await.is_some_and(|text| text.contains("orders:write")));
        check_width(&browser, "an operation").await;
        browser.screenshot(&format!("operation-{name}")).await;
        browser.close().await;
    }
}

/// Checks that the page does not scroll horizontally.
async fn check_width(browser: &Browser, page: &str) {
    let script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    let overflow = browser.page().execute(script, Vec::new()).await.expect("the page can be measured");
    assert_eq!(overflow.json().as_i64(), Some(0), "{page} is wider than the screen");
}
