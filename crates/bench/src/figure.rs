//! What was measured, and how it is shown.

use serde::Serialize;
use std::time::{Duration, Instant};

/// One measured figure and what it is compared with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub bench: &'static str,
    pub figure: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// The limit, taken in the same run; null where the bar is absolute.
    pub limit: Option<f64>,
    /// value ÷ limit, or the value itself where the bar is absolute.
    pub ratio: f64,
    /// Null where none was set.
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

    /// A rate that must reach `bar`, whatever else the machine does.
    pub(crate) fn reaches(bench: &'static str, figure: &'static str, value: f64, unit: &'static str, bar: f64) -> Self {
        Self { pass: value >= bar, must_be: ">=", ..Self::at_most(bench, figure, value, unit, bar) }
    }

    /// A rate that nothing is asked of.
    pub(crate) fn shown(bench: &'static str, figure: &'static str, value: f64, unit: &'static str, limit: f64) -> Self {
        let ratio = value / limit;
        Self { bench, figure, value, unit, limit: Some(limit), ratio, bar: None, must_be: ">=", pass: true }
    }

    /// A cost that must stay below `bar`.
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
pub(crate) struct Report(pub Vec<Figure>);

impl Report {
    pub(crate) fn print(&self, json: bool) {
        if json {
            for figure in &self.0 {
                println!("{}", serde_json::to_string(figure).expect("numbers and words"));
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

/// A line on standard error while something takes its time.
pub(crate) struct Progress {
    started: Instant,
    shown: Instant,
    what: String,
}

impl Progress {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        eprintln!("{what} …");
        Self { started: Instant::now(), shown: Instant::now(), what }
    }

    /// Shows how far it is, at most every two seconds.
    pub(crate) fn at(&mut self, done: impl std::fmt::Display) {
        if self.shown.elapsed() >= Duration::from_secs(2) {
            self.shown = Instant::now();
            eprintln!("{}: {done} after {:.0} s", self.what, self.started.elapsed().as_secs_f64());
        }
    }
}
