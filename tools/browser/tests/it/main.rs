//! The test browser renders pages, reports their errors, and leaves no process behind.

use onceward_browser::{Browser, Screen};
use onceward_testkit::{Scratch, eventually};
use std::{fs, path::Path, process::Command};

const PAGE: &str = "<!doctype html><meta name=viewport content='width=device-width'><title>t</title><h1>Before</h1>\
    <script>setTimeout(() => document.querySelector('h1').textContent = `After ${innerWidth} \
    ${matchMedia('(prefers-color-scheme: dark)').matches}`, 50)</script>";

fn page(folder: &Scratch, html: &str) -> String {
    fs::write(folder.join("page.html"), html).expect("the folder is writable");
    format!("file://{}", folder.join("page.html").display())
}

#[tokio::test]
async fn scripts_run_on_a_phone_in_dark_mode() {
    let folder = Scratch::new();
    let browser = Browser::start("a_page_changes", Screen::PHONE.dark()).await;
    browser.open(&page(&folder, PAGE)).await;
    let heading = || async { browser.text("h1").await.filter(|text| text.starts_with("After")) };
    assert_eq!(eventually("the script runs", heading).await, "After 390 true");
    browser.screenshot("after").await;
    browser.close().await;
}

#[tokio::test]
#[should_panic(expected = "the page logged errors")]
async fn a_script_error_fails_the_test() {
    let folder = Scratch::new();
    let browser = Browser::start("an_error_of_the_page", Screen::DESKTOP).await;
    browser.open(&page(&folder, "<!doctype html><script>nothing.there()</script>")).await;
    browser.close().await;
}

#[tokio::test]
#[should_panic(expected = "close the browser")]
async fn a_browser_that_is_not_closed_fails_the_test() {
    drop(Browser::start("not_closed", Screen::DESKTOP).await);
}

#[tokio::test]
async fn the_browser_process_ends_when_its_test_fails() {
    let browser = Browser::start("nothing_is_left", Screen::DESKTOP).await;
    browser.open("about:blank").await;
    let capabilities = browser.page().capabilities();
    let pid = capabilities.get("goog:processID").and_then(|pid| pid.as_u64()).expect("its process id");
    assert!(is_running(pid));
    let failing = tokio::spawn(async move {
        let _browser = browser;
        panic!("as a failing test does");
    });
    assert!(failing.await.is_err());
    eventually("the browser ends", || async { (!is_running(pid)).then_some(()) }).await;
}

/// Returns whether the process is running; a zombie is not.
fn is_running(pid: u64) -> bool {
    let state =
        Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps can be run").stdout;
    Path::new("/proc").join(pid.to_string()).exists() && !state.starts_with(b"Z")
}
