//! A browser, as a test uses it.

use crate::{Screen, process::Driver};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use thirtyfour::{By, WebDriver, WebElement};

const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// A browser with one page. It dies with this value; [`Browser::close`] ends it well.
pub struct Browser {
    page: WebDriver,
    process: Driver,
    pictures: PathBuf,
    closed: bool,
}

impl Browser {
    /// Starts one. Pictures that it takes are kept in `target/screenshots/<test>`.
    ///
    /// # Panics
    /// When it does not start; so do the others when the browser does not do what it is told.
    pub async fn start(test: &str, screen: Screen) -> Self {
        // The client that speaks to the driver wants one, though it never speaks TLS. A second call changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let process = Driver::start().await;
        let profile = process.profile.to_str().expect("a plain path");
        let wanted = screen.capabilities(profile).expect("what we want can be written down");
        let page = WebDriver::builder(&process.url, wanted).request_timeout(ANSWERS_WITHIN).await;
        let page = page.expect("chromium starts: `cargo xtask install` installs it");
        page.set_page_load_timeout(ANSWERS_WITHIN).await.expect("a timeout can be set");
        let pictures = target().join("screenshots").join(test);
        fs::create_dir_all(&pictures).expect("the target folder is writable");
        Self { page, process, pictures, closed: false }
    }

    /// Everything else that a browser can do.
    pub fn page(&self) -> &WebDriver {
        &self.page
    }

    /// Loads a page.
    pub async fn open(&self, url: &str) {
        self.page.goto(url).await.unwrap_or_else(|error| panic!("the page does not load: {error}"));
    }

    /// The first element that `css` selects.
    pub async fn find(&self, css: &str) -> WebElement {
        self.page.find(By::Css(css)).await.unwrap_or_else(|error| panic!("{css} is not on the page: {error}"))
    }

    /// The text that a reader sees in the first element that `css` selects, if there is one.
    pub async fn text(&self, css: &str) -> Option<String> {
        let found = self.page.find(By::Css(css)).await.ok()?;
        // It may have been replaced since.
        found.text().await.ok()
    }

    /// Keeps a picture of what is seen now.
    pub async fn screenshot(&self, name: &str) {
        let file = self.pictures.join(format!("{name}.png"));
        self.page.screenshot(&file).await.unwrap_or_else(|error| panic!("no picture of {name}: {error}"));
    }

    /// What the page complained of since it was last asked: errors of its scripts, of its rules, of what it loads.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.page.browser_log().await.expect("the browser tells what it logged");
        log.into_iter().filter(|entry| entry.level == "SEVERE").map(|entry| entry.message).collect()
    }

    /// Ends it; panics if the page complained.
    pub async fn close(mut self) {
        self.closed = true;
        let complaints = self.complaints().await;
        self.page.clone().quit().await.expect("a browser can be closed");
        assert!(complaints.is_empty(), "the page complained: {complaints:#?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        // Nobody says goodbye to it: it is killed.
        let _ = self.page.clone().leak();
        if !std::thread::panicking() {
            panic!("close the browser at {}: only then does its page's complaint fail the test", self.process.url);
        }
    }
}

/// Tests run from `target/<profile>/deps`.
fn target() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows where it is");
    program.ancestors().nth(3).map(Path::to_owned).expect("tests run from the target folder")
}
