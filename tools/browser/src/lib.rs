//! A real browser for tests of web pages: rendering, scripts and live updates.
//!
//! ```no_run
//! # async fn test() {
//! let browser = onceward_browser::Browser::start("live_page", onceward_browser::Screen::PHONE).await;
//! browser.open("http://127.0.0.1:8080/").await;
//! assert_eq!(browser.text("h1").await.as_deref(), Some("Hello"));
//! browser.screenshot("hello").await;
//! browser.close().await;
//! # }
//! ```

mod browser;
mod process;
mod screen;

pub use browser::Browser;
pub use screen::Screen;
pub use thirtyfour;
