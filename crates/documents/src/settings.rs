//! The service's settings. What each means is written in `config/default.toml`, which is the default.

use onceward::Section;
use serde::Deserialize;

/// The section `[documents]`.
pub const SECTION: Section =
    Section { name: "documents", defaults: include_str!("../config/default.toml"), specified: &[] };

/// What can be set.
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

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}
