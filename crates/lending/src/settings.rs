//! The service's settings. What each means is written in `config/default.toml`, which is the default.

use onceward::Section;
use serde::Deserialize;

/// The section `[lending]`.
pub const SECTION: Section = Section {
    name: "lending",
    defaults: include_str!("../config/default.toml"),
    specified: &[
        ("FEATURE_ASYNC_LOAN_CREATE", "async_loan_create"),
        ("PAYMENT_MAX_MINOR", "payment_max_minor"),
        ("PAYMENT_MAX_STALENESS_DAYS", "payment_max_staleness_days"),
    ],
};

/// What can be set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub async_loan_create: bool,
    pub payment_max_minor: i64,
    pub payment_max_staleness_days: i32,
    pub poster_batch: usize,
    pub poster_concurrency: usize,
    pub accrual_cron: String,
    pub etl_cron: String,
    pub etl_window_minutes: u32,
    pub etl_shards: u32,
}

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}
