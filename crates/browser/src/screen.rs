//! What a page is looked at with.

use serde_json::json;
use thirtyfour::{ChromiumLikeCapabilities, DesiredCapabilities, LoggingPrefsLogLevel, error::WebDriverResult};

/// A screen and its owner's habits.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    width: u32,
    height: u32,
    phone: bool,
    dark: bool,
}

impl Screen {
    /// A small window on a desk.
    pub const DESK: Self = Self { width: 1024, height: 768, phone: false, dark: false };
    /// A phone, held upright.
    pub const PHONE: Self = Self { width: 390, height: 844, phone: true, dark: false };

    /// The same in the dark.
    pub const fn dark(self) -> Self {
        Self { dark: true, ..self }
    }

    pub(crate) fn capabilities(self, profile: &str) -> WebDriverResult<thirtyfour::ChromeCapabilities> {
        let mut wanted = DesiredCapabilities::chrome();
        let size = format!("--window-size={},{}", self.width, self.height);
        let scheme = format!("--blink-settings=preferredColorScheme={}", if self.dark { 0 } else { 1 });
        for arg in ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", &size, &scheme] {
            wanted.add_arg(arg)?;
        }
        // Root has no sandbox to give, and test machines often run as root.
        wanted.add_arg("--no-sandbox")?;
        // Over a pipe the browser ends with its driver, in whatever way that ends.
        wanted.add_arg("--remote-debugging-pipe")?;
        wanted.add_arg(&format!("--user-data-dir={profile}"))?;
        wanted.set_browser_log_level(LoggingPrefsLogLevel::All)?;
        if self.phone {
            let metrics = json!({"width": self.width, "height": self.height, "pixelRatio": 2.0, "touch": true});
            wanted.add_experimental_option("mobileEmulation", json!({ "deviceMetrics": metrics }))?;
        }
        Ok(wanted)
    }
}
