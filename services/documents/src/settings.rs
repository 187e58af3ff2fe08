//! The service's settings. `config/default.toml` holds the defaults and documents each setting.

use onceward::{Section, config};
use serde::Deserialize;

/// The section `[documents]`.
pub const SECTION: Section = Section {
    name: "documents",
    defaults: include_str!("../config/default.toml"),
    env_aliases: &[],
    demo: &[],
    check: config::problems_of::<Settings>,
};

/// The settings of the section.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub max_bytes: usize,
    pub pages_per_step: u32,
    pub step_timeout_ms: u64,
    pub max_pages: u32,
    pub max_text_chars: u64,
    pub max_unpacked_bytes: usize,
    pub concurrency: usize,
}

impl config::ServiceSettings for Settings {
    fn problems(&self) -> Vec<String> {
        config::violations(&[
            (self.pages_per_step >= 1, "documents.pages_per_step must be at least 1"),
            (self.concurrency >= 1, "documents.concurrency must be at least 1"),
        ])
    }
}

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}
