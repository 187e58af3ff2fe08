//! The measured figures and their output.

use serde::Serialize;
use std::time::{Duration, Instant};

/// A measured figure and the value it is compared with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub bench: &'static str,
    pub figure: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// The limit measured in the same run, or null if the bar is absolute.
    pub limit: Option<f64>,
    /// value ÷ limit, or the value itself if the bar is absolute.
    pub ratio: f64,
    /// The required ratio, or null if the figure is only shown.
    pub bar: Option<f64>,
    /// `>=` or `<=`.
    pub must_be: &'static str,
    pub pass: bool,
}

impl Figure {
    /// A rate that must reach `bar` times its limit.
    pub(crate) fn at_least(
        bench: &'static str,
        figure: &'static str,
        value: f64,
        unit: &'static str,
        limit: f64,
        bar: f64,
    ) -> Self {
        let ratio = value / limit;
        Self {
            bench,
            figure,
            value,
            unit,
            limit: Some(limit),
            ratio,
            bar: Some(bar),
            must_be: ">=",
            pass: ratio >= bar,
        }
    }

    /// A rate that must reach the absolute value `bar`.
    pub(crate) fn at_least_absolute(
        bench: &'static str,
        figure: &'static str,
        value: f64,
        unit: &'static str,
        bar: f64,
    ) -> Self {
        Self { pass: value >= bar, must_be: ">=", ..Self::at_most(bench, figure, value, unit, bar) }
    }

    /// A rate without a bar.
    pub(crate) fn without_bar(
        bench: &'static str,
        figure: &'static str,
        value: f64,
        unit: &'static str,
        limit: f64,
    ) -> Self {
        let ratio = value / limit;
        Self { bench, figure, value, unit, limit: Some(limit), ratio, bar: None, must_be: ">=", pass: true }
    }

    /// A cost that must not exceed the absolute value `bar`.
    pub(crate) fn at_most(bench: &'static str, figure: &'static str, value: f64, unit: &'static str, bar: f64) -> Self {
        Self {
            bench,
            figure,
            value,
            unit,
            limit: None,
            ratio: value,
            bar: Some(bar),
            must_be: "<=",
            pass: value <= bar,
        }
    }
}

/// All figures of a run.
pub(crate) struct BenchReport(pub Vec<Figure>);

impl BenchReport {
    pub(crate) fn print(&self, json: bool) {
        if json {
            for figure in &self.0 {
                println!("{}", serde_json::to_string(figure).expect("numbers and strings serialize"));
            }
            return;
        }
        let columns = ["bench", "figure", "measured", "unit", "limit", "ratio", "bar"];
        let [bench, figure, measured, unit, limit, ratio, bar] = columns;
        println!("{bench:<9} {figure:<28} {measured:>12} {unit:<11} {limit:>12} {ratio:>8}   {bar}");
        for figure in &self.0 {
            let limit = figure.limit.map_or(String::from("-"), |limit| format!("{limit:.0}"));
            println!(
                "{:<9} {:<28} {:>12.2} {:<11} {:>12} {:>8.2}   {:>2} {:<6} {}",
                figure.bench,
                figure.figure,
                figure.value,
                figure.unit,
                limit,
                figure.ratio,
                figure.bar.map_or("", |_| figure.must_be),
                figure.bar.map_or("-".to_owned(), |bar| bar.to_string()),
                match (figure.bar, figure.pass) {
                    (None, _) => "",
                    (_, true) => "ok",
                    (_, false) => "MISSED",
                }
            );
        }
    }
}

/// Reports progress on standard error.
pub(crate) struct ProgressReporter {
    started: Instant,
    last_report: Instant,
    phase: String,
}

impl ProgressReporter {
    pub(crate) fn new(phase: impl Into<String>) -> Self {
        let phase = phase.into();
        eprintln!("{phase} …");
        Self { started: Instant::now(), last_report: Instant::now(), phase }
    }

    /// Prints the progress, at most every two seconds.
    pub(crate) fn report(&mut self, progress: impl std::fmt::Display) {
        if self.last_report.elapsed() >= Duration::from_secs(2) {
            self.last_report = Instant::now();
            eprintln!("{}: {progress} after {:.0} s", self.phase, self.started.elapsed().as_secs_f64());
        }
    }
}
