//! The browser API for tests.

use crate::{Screen, process::Driver};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use thirtyfour::{By, WebDriver, WebElement};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one page. Tests must end it with [`Browser::close`]; dropping it kills the process and fails the
/// test.
pub struct Browser {
    page: WebDriver,
    process: Driver,
    screenshots: PathBuf,
    closed: bool,
}

impl Browser {
    /// Starts a browser. Screenshots are stored in `target/screenshots/<test>`.
    ///
    /// # Panics
    /// If the browser does not start. All other methods panic if the browser fails to execute a command.
    pub async fn start(test: &str, screen: Screen) -> Self {
        // The WebDriver client requires a crypto provider, although it does not use TLS. A second call has no effect.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let process = Driver::start().await;
        let profile = process.profile.to_str().expect("a plain path");
        let capabilities = screen.capabilities(profile).expect("the capabilities are valid");
        let page = WebDriver::builder(&process.url, capabilities).request_timeout(REQUEST_TIMEOUT).await;
        let page = page.expect("chromium starts (install it with `cargo xtask install`)");
        page.set_page_load_timeout(REQUEST_TIMEOUT).await.expect("a timeout can be set");
        let screenshots = target_dir().join("screenshots").join(test);
        fs::create_dir_all(&screenshots).expect("the target folder is writable");
        Self { page, process, screenshots, closed: false }
    }

    /// Returns the WebDriver session, for everything else.
    pub fn page(&self) -> &WebDriver {
        &self.page
    }

    /// Loads a page.
    pub async fn open(&self, url: &str) {
        self.page.goto(url).await.unwrap_or_else(|error| panic!("loading the page failed: {error}"));
    }

    /// Returns the first element that `css` selects.
    pub async fn find(&self, css: &str) -> WebElement {
        self.page.find(By::Css(css)).await.unwrap_or_else(|error| panic!("{css} is not on the page: {error}"))
    }

    /// Returns the visible text of the first element that `css` selects, if there is one.
    pub async fn text(&self, css: &str) -> Option<String> {
        let found = self.page.find(By::Css(css)).await.ok()?;
        // The element may have been replaced since.
        found.text().await.ok()
    }

    /// Stores a screenshot of the current view.
    pub async fn screenshot(&self, name: &str) {
        let file = self.screenshots.join(format!("{name}.png"));
        self.page.screenshot(&file).await.unwrap_or_else(|error| panic!("taking screenshot {name} failed: {error}"));
    }

    /// Returns the errors in the browser log since the last call: script errors, policy violations and failed requests.
    pub async fn console_errors(&self) -> Vec<String> {
        let log = self.page.browser_log().await.expect("the browser log can be read");
        log.into_iter().filter(|entry| entry.level == "SEVERE").map(|entry| entry.message).collect()
    }

    /// Closes the browser. Panics if the page logged an error.
    pub async fn close(mut self) {
        self.closed = true;
        let errors = self.console_errors().await;
        self.page.clone().quit().await.expect("a browser can be closed");
        assert!(errors.is_empty(), "the page logged errors: {errors:#?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        // The process is killed, so the session is not closed.
        let _ = self.page.clone().leak();
        if !std::thread::panicking() {
            panic!("close the browser at {}: closing it checks for errors of the page", self.process.url);
        }
    }
}

/// Returns the target folder. Tests run from `target/<profile>/deps`.
fn target_dir() -> PathBuf {
    let program = std::env::current_exe().expect("the path of the executable is known");
    program.ancestors().nth(3).map(Path::to_owned).expect("tests run from the target folder")
}
