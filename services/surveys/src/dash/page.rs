//! The live view as a page. It is complete without its script, which only replaces older parts (`data-part`) with newer
//! ones: the server renders both.

use super::{
    charts::{self, number},
    funnel::FunnelPage,
    snapshot::{BucketFill, CollectorCounts, LiveSnapshot},
};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

pub(super) const SCRIPT: &str = include_str!("assets/live.js");
pub(super) const STYLE: &str = include_str!("assets/live.css");
const SECOND_MS: i64 = 1_000;
const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 3_600;
/// Counts that lag further behind are shown as late.
const LATE_MS: i64 = 10_000;

/// Renders the page with its initial state. Its script listens to `events`.
pub(super) fn page(snapshot: &LiveSnapshot, events: &str, expires_at: Timestamp) -> String {
    let body = html! {
        main data-events=(events) {
            header {
                h1 { (snapshot.title) }
                p.state role="status" aria-live="polite" data-connection="" { "As of " (time(snapshot.at)) }
            }
            (parts(snapshot))
            footer { p { "Times are in UTC. This link shows only this survey and expires at " (time(expires_at)) "." } }
        }
    };
    document(&snapshot.title, &body, true)
}

/// Renders the parts that change, each with its name.
pub(super) fn parts(snapshot: &LiveSnapshot) -> Markup {
    html! {
        (freshness(snapshot))
        (figures(snapshot))
        div.charts {
            section data-part="per-minute" {
                h2 { "Last hour" }
                (charts::per_minute(&snapshot.minutes, snapshot.at))
                p.legend { span.swatch.completed {} "Completes" span.swatch.started {} "Starts" }
            }
            (quotas(&snapshot.quotas))
        }
        (pages(&snapshot.pages))
        div.charts {
            (collectors(&snapshot.collectors))
            (reasons(snapshot))
        }
    }
}

/// Renders the page for an expired or invalid link.
pub(super) fn invalid_link() -> String {
    let body = html! {
        main {
            h1 { "This link does not work" }
            p { "It has expired or is incomplete. Ask the person who sent it for a new one." }
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

/// Describes in words how current the shown counts are.
fn freshness(snapshot: &LiveSnapshot) -> Markup {
    let events = &snapshot.events;
    let late = events.lag_ms >= LATE_MS;
    html! {
        p.fresh.late[late] data-part="fresh" {
            "Updated " (snapshot.at.strftime("%H:%M:%S").to_string()) ". "
            @if late {
                strong { "Counts lag behind by " (duration(events.lag_ms)) "." }
            } @else if let Some(age_ms) = events.newest_age_ms {
                "Last event " (duration(age_ms)) " ago, " (events.per_second) " events per second."
            } @else {
                "Nothing has happened yet."
            }
        }
    }
}

fn figures(snapshot: &LiveSnapshot) -> Markup {
    let sessions = &snapshot.sessions;
    let full = sessions.terminated.get("quota_full").copied().unwrap_or_default();
    let here: i64 = snapshot.pages.iter().map(|page| page.here).sum();
    let started = sessions.started;
    let all = [
        (
            "completed",
            "Completes",
            sessions.completed,
            format!("{} of {} started", share(sessions.completed, started), number(started)),
        ),
        ("active", "In progress", here, format!("{} of started", share(here, started))),
        ("left", "Left", sessions.left, format!("{} of started", share(sessions.left, started))),
        (
            "turned_away",
            "Turned away",
            sessions.screened_out + full,
            format!("{} screened out, {} quota full", number(sessions.screened_out), number(full)),
        ),
    ];
    html! {
        dl.figures data-part="figures" {
            @for (name, label, value, note) in all {
                div { dt { (label) } dd data-figure=(name) { (number(value)) } dd.note { (note) } }
            }
        }
    }
}

fn pages(pages: &[FunnelPage]) -> Markup {
    let first = pages.first().map_or(0, |page| page.reached);
    let rows = html! {
        @for page in pages {
            tr {
                th scope="row" { (page_name(page)) }
                td.wide { (charts::bar(&format!("{} of all sessions reached it", share(page.reached, first)), page.reached, 0, first)) }
                td { (number(page.reached)) }
                td { (number(page.here)) }
                td { (number(page.left)) " " span.note { (share(page.left, page.reached)) } }
                td { (number(page.turned_away)) }
            }
        }
    };
    let columns =
        [("Page", ""), ("Reached", "wide"), ("", ""), ("On it now", ""), ("Left on it", ""), ("Turned away", "")];
    table("How far respondents get", "pages", &columns, &rows, pages.is_empty(), "Publish the survey to see its pages.")
}

fn page_name(page: &FunnelPage) -> String {
    match (&page.title, page.page_id.as_str()) {
        (Some(title), _) => format!("{}. {title}", page.page_index + 1),
        (None, "") => "Everything answered".to_owned(),
        (None, id) => format!("{}. {id}", page.page_index + 1),
    }
}

fn quotas(buckets: &[BucketFill]) -> Markup {
    let rows = html! {
        @for bucket in buckets {
            tr {
                th scope="row" {
                    (bucket.name)
                    @if bucket.closed { " " span.tag { "full" } }
                    @if bucket.max_overfill > 0 { " " span.note { "+" (number(bucket.max_overfill.into())) " allowed" } }
                }
                td.wide { (charts::fill(bucket)) }
                td { (number(bucket.filled.into())) span.note { " of " (number(bucket.target.into())) } }
                td { (number(bucket.reserved.into())) }
            }
        }
    };
    let columns = [("Bucket", ""), ("Filled", "wide"), ("", ""), ("Held", "")];
    let hint = "This survey has no quotas. Add them with POST /api/surveys/{id}/quotas.";
    table("Quotas", "quotas", &columns, &rows, buckets.is_empty(), hint)
}

fn collectors(collectors: &[CollectorCounts]) -> Markup {
    let rows = html! {
        @for collector in collectors {
            tr {
                th scope="row" { (collector.name.clone().unwrap_or_else(|| collector.collector_id.to_string())) }
                td { (number(collector.started)) }
                td { (number(collector.completed)) " " span.note { (share(collector.completed, collector.started)) } }
            }
        }
    };
    let columns = [("Collector", ""), ("Started", ""), ("Completes", "")];
    table("Collectors", "collectors", &columns, &rows, collectors.is_empty(), "Nobody has started yet.")
}

fn reasons(snapshot: &LiveSnapshot) -> Markup {
    let terminated = &snapshot.sessions.terminated;
    let rows = html! {
        @for (reason, count) in terminated {
            tr { th scope="row" { (reason_label(reason)) } td { (number(*count)) } }
        }
    };
    let columns = [("Reason", ""), ("Sessions", "")];
    table("Ended early", "reasons", &columns, &rows, terminated.is_empty(), "Nobody has ended early.")
}

/// Renders a table, or a hint in its place if it is empty.
fn table(title: &str, name: &str, columns: &[(&str, &str)], rows: &Markup, empty: bool, hint: &str) -> Markup {
    html! {
        section data-part=(name) {
            h2 id={ "title-" (name) } { (title) }
            @if empty {
                p.note { (hint) }
            } @else {
                div.scroll {
                    table aria-labelledby={ "title-" (name) } {
                        thead { tr { @for (column, class) in columns { th.(class) scope="col" { (column) } } } }
                        tbody data-rows=(name) { (rows) }
                    }
                }
            }
        }
    }
}

fn reason_label(reason: &str) -> &str {
    match reason {
        "screened_out" => "Screened out",
        "quota_full" => "Quota full",
        "abandoned" => "Abandoned",
        "expired" => "Inactive for too long",
        "by_respondent" => "Stopped by the respondent",
        other => other,
    }
}

fn duration(ms: i64) -> String {
    match ms / SECOND_MS {
        seconds if seconds < 2 * MINUTE_S => format!("{seconds} s"),
        seconds if seconds < 2 * HOUR_S => format!("{} min", seconds / MINUTE_S),
        seconds => format!("{} h", seconds / HOUR_S),
    }
}

fn share(part: i64, whole: i64) -> String {
    let percent = if whole > 0 { (100 * part + whole / 2) / whole } else { 0 };
    format!("{percent} %")
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
