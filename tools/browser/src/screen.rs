//! The screen of the browser.

use serde_json::json;
use thirtyfour::{ChromiumLikeCapabilities, DesiredCapabilities, LoggingPrefsLogLevel, error::WebDriverResult};

/// Size and kind of the screen, and the preferred color scheme.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    width: u32,
    height: u32,
    phone: bool,
    dark: bool,
}

impl Screen {
    /// A small desktop window.
    pub const DESKTOP: Self = Self { width: 1024, height: 768, phone: false, dark: false };
    /// A phone in portrait orientation.
    pub const PHONE: Self = Self { width: 390, height: 844, phone: true, dark: false };

    /// Returns the same screen with a preference for dark mode.
    pub const fn dark(self) -> Self {
        Self { dark: true, ..self }
    }

    pub(crate) fn capabilities(self, profile: &str) -> WebDriverResult<thirtyfour::ChromeCapabilities> {
        let mut capabilities = DesiredCapabilities::chrome();
        let size = format!("--window-size={},{}", self.width, self.height);
        let scheme = format!("--blink-settings=preferredColorScheme={}", if self.dark { 0 } else { 1 });
        for arg in ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", &size, &scheme] {
            capabilities.add_arg(arg)?;
        }
        // The sandbox does not work as root, and test machines often run as root.
        capabilities.add_arg("--no-sandbox")?;
        // With a pipe, the browser exits whenever its driver exits, for whatever reason.
        capabilities.add_arg("--remote-debugging-pipe")?;
        capabilities.add_arg(&format!("--user-data-dir={profile}"))?;
        capabilities.set_browser_log_level(LoggingPrefsLogLevel::All)?;
        if self.phone {
            let metrics = json!({"width": self.width, "height": self.height, "pixelRatio": 2.0, "touch": true});
            capabilities.add_experimental_option("mobileEmulation", json!({ "deviceMetrics": metrics }))?;
        }
        Ok(capabilities)
    }
}
