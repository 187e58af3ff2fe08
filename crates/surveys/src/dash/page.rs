//! The live view as a page. It is whole without its script, which only keeps it up to date: what `assets/live.js` writes into
//! the elements that are marked `data-…`, this wrote first.

use super::snapshot::{Bucket, Collector, Page, Snapshot};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

pub(super) const SCRIPT: &str = include_str!("assets/live.js");
pub(super) const STYLE: &str = include_str!("assets/live.css");
const SECOND_MS: i64 = 1_000;
const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 3_600;

/// The page, with its first state. Its script listens to `events`.
pub(super) fn page(snapshot: &Snapshot, events: &str, until: Timestamp) -> String {
    let body = html! {
        main data-events=(events) {
            header {
                p.kind { "Live view" }
                h1 { (snapshot.title) }
                p.state role="status" aria-live="polite" data-connection="" { "As of " (time(snapshot.at)) }
            }
            p.summary aria-live="polite" data-summary="" { (summary(snapshot)) }
            (figures(snapshot))
            (reasons(snapshot))
            (pages(&snapshot.pages))
            (quotas(&snapshot.quotas))
            (collectors(&snapshot.collectors))
            footer { p { "This link shows this survey only, and works until " (time(until)) "." } }
        }
    };
    document(&snapshot.title, &body, true)
}

/// What a link shows that is not good any more, or never was.
pub(super) fn closed() -> String {
    let body = html! {
        main {
            h1 { "This link does not work" }
            p { "It has expired, or is incomplete. Ask whoever sent it for a new one." }
        }
    };
    document("This link does not work", &body, false)
}

fn document(title: &str, body: &Markup, live: bool) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/live/assets/live.css";
                @if live {
                    noscript { meta http-equiv="refresh" content="10"; }
                    script src="/live/assets/live.js" defer {}
                }
            }
            body { (body) }
        }
    };
    page.into_string()
}

fn figures(snapshot: &Snapshot) -> Markup {
    let (sessions, events) = (&snapshot.sessions, &snapshot.events);
    let all = [
        ("completed", "Completes", sessions.completed.to_string()),
        ("screened_out", "Screen-outs", sessions.screened_out.to_string()),
        ("active", "Under way", sessions.active.to_string()),
        ("started", "Started", sessions.started.to_string()),
        ("per_second", "Events a second", events.per_second.to_string()),
        ("delay", "Counted after", events.delay_ms.map_or_else(none, |ms| format!("{ms} ms"))),
        ("age", "Last event", events.newest_age_ms.map_or_else(none, ago)),
    ];
    html! {
        dl.figures {
            @for (name, label, value) in all {
                div { dt { (label) } dd data-figure=(name) { (value) } }
            }
        }
    }
}

fn reasons(snapshot: &Snapshot) -> Markup {
    let rows = html! {
        @for (reason, count) in &snapshot.sessions.terminated {
            tr { th scope="row" { (reason.replace('_', " ")) } td { (count) } }
        }
    };
    table("Ended before the end", "reasons", &["Reason", "Sessions"], &rows)
}

fn pages(pages: &[Page]) -> Markup {
    let rows = html! {
        @for page in pages {
            tr {
                th scope="row" { @if page.page_id.is_empty() { "before the first page" } @else { (page.page_id) } }
                td { (page.reached) }
                td { (page.here) }
                td { (page.dropped) " (" (percent(page.dropped, page.reached)) "%)" }
            }
        }
    };
    table("Drop-off by page", "pages", &["Page", "Reached", "Are here", "Left after it"], &rows)
}

fn quotas(buckets: &[Bucket]) -> Markup {
    let rows = html! {
        @for bucket in buckets {
            tr {
                th scope="row" { (bucket.name) @if bucket.closed { " (full)" } }
                td {
                    progress max=(bucket.target.max(1)) value=(bucket.filled.min(bucket.target.max(1)))
                        aria-label={ (bucket.name) " filled" } {}
                    " " (bucket.filled) " of " (bucket.target)
                }
                td { (bucket.reserved) }
            }
        }
    };
    table("Quotas", "quotas", &["Bucket", "Filled", "Held"], &rows)
}

fn collectors(collectors: &[Collector]) -> Markup {
    let rows = html! {
        @for collector in collectors {
            tr {
                th scope="row" { (collector.name.clone().unwrap_or_else(|| collector.collector_id.to_string())) }
                td { (collector.started) }
                td { (collector.completed) }
            }
        }
    };
    table("Collectors", "collectors", &["Collector", "Started", "Completes"], &rows)
}

fn table(title: &str, name: &str, columns: &[&str], rows: &Markup) -> Markup {
    html! {
        section {
            table {
                caption { (title) }
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody data-rows=(name) { (rows) }
            }
        }
    }
}

fn summary(snapshot: &Snapshot) -> String {
    let sessions = &snapshot.sessions;
    format!(
        "{} completes, {} screen-outs, {} sessions under way.",
        sessions.completed, sessions.screened_out, sessions.active
    )
}

fn none() -> String {
    "none yet".to_owned()
}

fn ago(age_ms: i64) -> String {
    match age_ms / SECOND_MS {
        seconds if seconds < 2 * MINUTE_S => format!("{seconds} s ago"),
        seconds if seconds < 2 * HOUR_S => format!("{} min ago", seconds / MINUTE_S),
        seconds => format!("{} h ago", seconds / HOUR_S),
    }
}

fn percent(part: i64, whole: i64) -> i64 {
    if whole > 0 { (100 * part + whole / 2) / whole } else { 0 }
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
