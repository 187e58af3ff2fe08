//! The service's settings. Each one is documented in `config/default.toml`, which also contains the defaults.

use onceward::{Section, config};
use serde::Deserialize;

/// The section `[lending]`.
pub const SECTION: Section = Section {
    name: "lending",
    defaults: include_str!("../config/default.toml"),
    env_aliases: &[
        ("FEATURE_ASYNC_LOAN_CREATE", "async_loan_create"),
        ("PAYMENT_MAX_MINOR", "payment_max_minor"),
        ("PAYMENT_MAX_STALENESS_DAYS", "payment_max_staleness_days"),
    ],
    demo: &[("mock_provider", true)],
    check: config::problems_of::<Settings>,
};

/// The most shards that are useful; more would only be small.
pub(crate) const MAX_SHARDS: u32 = 256;

/// The settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Settings {
    pub async_loan_create: bool,
    pub payment_max_minor: i64,
    pub payment_max_staleness_days: i32,
    pub mock_provider: bool,
    pub poster_batch: usize,
    pub poster_concurrency: usize,
    pub accrual_cron: String,
    pub etl_cron: String,
    pub etl_window_minutes: u32,
    pub etl_shards: u32,
}

impl Settings {
    /// Returns the number of posters per instance.
    pub(crate) fn posters(&self) -> usize {
        match self.poster_concurrency {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            set => set,
        }
    }
}

impl config::ServiceSettings for Settings {
    fn problems(&self) -> Vec<String> {
        config::violations(&[
            (self.payment_max_minor >= 1, "lending.payment_max_minor (PAYMENT_MAX_MINOR) must be at least 1"),
            (
                self.payment_max_staleness_days >= 0,
                "lending.payment_max_staleness_days (PAYMENT_MAX_STALENESS_DAYS) must be at least 0",
            ),
            (self.poster_batch >= 1, "lending.poster_batch must be at least 1"),
            (
                (1..=10_080).contains(&self.etl_window_minutes),
                "lending.etl_window_minutes must be 1 to 10080, which is a week",
            ),
            ((1..=MAX_SHARDS).contains(&self.etl_shards), "lending.etl_shards must be 1 to 256"),
        ])
    }
}

impl Default for Settings {
    fn default() -> Self {
        SECTION.default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward::config::ServiceSettings as _;

    #[test]
    fn every_value_out_of_range_is_reported() {
        assert_eq!(Settings::default().problems(), [] as [String; 0]);
        let wrong = Settings {
            payment_max_minor: 0,
            payment_max_staleness_days: -1,
            poster_batch: 0,
            etl_window_minutes: 0,
            etl_shards: MAX_SHARDS + 1,
            ..Settings::default()
        };
        let problems = wrong.problems();
        let names =
            ["payment_max_minor", "payment_max_staleness_days", "poster_batch", "etl_window_minutes", "etl_shards"];
        assert_eq!(problems.len(), names.len(), "{problems:?}");
        for (problem, name) in problems.iter().zip(names) {
            assert!(problem.starts_with(&format!("lending.{name} ")), "{problem}");
        }
    }
}
