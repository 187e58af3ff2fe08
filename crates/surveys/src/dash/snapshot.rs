//! What the live view shows, as it stands at a moment.

use super::store;
use crate::SurveyError;
use jiff::Timestamp;
use onceward::Tx;
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;

/// States in which nobody was turned away and nobody came to the end.
const DROPPED: [&str; 3] = ["abandoned", "expired", "by_respondent"];

/// How far the counting is.
pub(super) struct Progress {
    pub(super) title: String,
    pub(super) status: String,
    pub(super) events: i64,
    pub(super) newest_at: Option<Timestamp>,
    pub(super) delay_ms: Option<i64>,
    pub(super) now: Timestamp,
}

/// So many sessions of a collector stand here.
pub(super) struct Standing {
    pub(super) collector_id: Uuid,
    pub(super) collector: Option<String>,
    pub(super) page_id: String,
    pub(super) page_index: i32,
    pub(super) state: String,
    pub(super) n: i64,
}

/// Everything at one moment. Counts of sessions come from events; buckets from where places are given out.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Snapshot {
    pub(crate) survey_id: Uuid,
    pub(crate) title: String,
    pub(crate) status: String,
    /// By the database's clock.
    pub(crate) at: Timestamp,
    pub(crate) sessions: Sessions,
    pub(crate) pages: Vec<Page>,
    pub(crate) collectors: Vec<Collector>,
    pub(crate) quotas: Vec<Bucket>,
    pub(crate) minutes: Vec<Minute>,
    pub(crate) events: Events,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Sessions {
    pub(crate) started: i64,
    pub(crate) active: i64,
    pub(crate) completed: i64,
    pub(crate) screened_out: i64,
    /// By reason, screen-outs included.
    pub(crate) terminated: BTreeMap<String, i64>,
}

/// A page, by the sessions that submitted it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Page {
    /// Empty: before the first page.
    pub(crate) page_id: String,
    pub(crate) page_index: i32,
    /// Sessions that came this far or further.
    pub(crate) reached: i64,
    /// Sessions under way that have submitted nothing after it.
    pub(crate) here: i64,
    /// Sessions that went away after it.
    pub(crate) dropped: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Collector {
    pub(crate) collector_id: Uuid,
    pub(crate) name: Option<String>,
    pub(crate) started: i64,
    pub(crate) completed: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bucket {
    pub(crate) bucket_id: Uuid,
    pub(crate) name: String,
    pub(crate) target: i32,
    pub(crate) max_overfill: i32,
    pub(crate) reserved: i32,
    pub(crate) filled: i32,
    pub(crate) closed: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Minute {
    pub(crate) minute: Timestamp,
    pub(crate) events: i64,
    pub(crate) started: i64,
    pub(crate) completed: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Events {
    pub(crate) counted: i64,
    /// Over this minute and the one before.
    pub(crate) per_second: f64,
    pub(crate) newest_at: Option<Timestamp>,
    /// From then to now: grows while nothing happens.
    pub(crate) newest_age_ms: Option<i64>,
    /// From when the newest event happened to when it was counted.
    pub(crate) delay_ms: Option<i64>,
}

/// Reads one.
pub(crate) async fn read(tx: &Tx, survey_id: Uuid) -> Result<Snapshot, SurveyError> {
    let progress = store::progress(tx, survey_id).await?.ok_or(SurveyError::Missing("survey"))?;
    let standings = store::standings(tx, survey_id).await?;
    let minutes = store::minutes(tx, survey_id).await?;
    let quotas = store::buckets(tx, survey_id).await?;
    Ok(Snapshot {
        survey_id,
        sessions: sessions(&standings),
        pages: pages(&standings),
        collectors: collectors(&standings),
        quotas,
        events: events(&progress, &minutes),
        minutes,
        title: progress.title,
        status: progress.status,
        at: progress.now,
    })
}

fn sessions(standings: &[Standing]) -> Sessions {
    let mut sessions = Sessions::default();
    for standing in standings {
        sessions.started += standing.n;
        match standing.state.as_str() {
            "active" => sessions.active += standing.n,
            "completed" => sessions.completed += standing.n,
            reason => *sessions.terminated.entry(reason.to_owned()).or_default() += standing.n,
        }
    }
    sessions.screened_out = sessions.terminated.get("screened_out").copied().unwrap_or_default();
    sessions
}

/// In their order. By routing a session may pass over a page; it has reached it all the same.
fn pages(standings: &[Standing]) -> Vec<Page> {
    let mut pages: BTreeMap<(i32, &str), Page> = BTreeMap::new();
    let last_index = |id: &str| standings.iter().filter(|one| one.page_id == id).map(|one| one.page_index).max();
    for standing in standings {
        let page_index = last_index(&standing.page_id).unwrap_or(standing.page_index);
        let page = pages.entry((page_index, &standing.page_id)).or_insert_with(|| Page {
            page_id: standing.page_id.clone(),
            page_index,
            reached: standings.iter().filter(|one| one.page_index >= page_index).map(|one| one.n).sum(),
            here: 0,
            dropped: 0,
        });
        match standing.state.as_str() {
            "active" => page.here += standing.n,
            state if DROPPED.contains(&state) => page.dropped += standing.n,
            _ => {}
        }
    }
    pages.into_values().collect()
}

fn collectors(standings: &[Standing]) -> Vec<Collector> {
    let mut collectors: BTreeMap<Uuid, Collector> = BTreeMap::new();
    for Standing { collector_id, collector, state, n, .. } in standings {
        let one = collectors.entry(*collector_id).or_insert_with(|| Collector {
            collector_id: *collector_id,
            name: collector.clone(),
            started: 0,
            completed: 0,
        });
        one.started += n;
        one.completed += if state == "completed" { *n } else { 0 };
    }
    collectors.into_values().collect()
}

fn events(progress: &Progress, minutes: &[Minute]) -> Events {
    let now_ms = progress.now.as_millisecond();
    let minute_ms = 60_000;
    let window_from_ms = now_ms - now_ms.rem_euclid(minute_ms) - minute_ms;
    let recent = minutes.iter().filter(|minute| minute.minute.as_millisecond() >= window_from_ms);
    let count: i64 = recent.map(|minute| minute.events).sum();
    let per_second = count as f64 * 1000.0 / (now_ms - window_from_ms) as f64;
    Events {
        counted: progress.events,
        per_second: (per_second * 100.0).round() / 100.0,
        newest_at: progress.newest_at,
        newest_age_ms: progress.newest_at.map(|at| (now_ms - at.as_millisecond()).max(0)),
        delay_ms: progress.delay_ms.map(|delay| delay.max(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(page_index: i32, state: &str, n: i64) -> Standing {
        let page_id = if page_index < 0 { String::new() } else { format!("p{page_index}") };
        Standing { collector_id: Uuid::nil(), collector: None, page_id, page_index, state: state.to_owned(), n }
    }

    #[test]
    fn sessions_are_told_apart_by_what_became_of_them_and_by_how_far_they_came() {
        let all = [
            standing(-1, "abandoned", 2),
            standing(0, "screened_out", 3),
            standing(0, "active", 1),
            standing(1, "by_respondent", 4),
            standing(1, "completed", 10),
        ];
        let counted = sessions(&all);
        assert_eq!((counted.started, counted.active, counted.completed, counted.screened_out), (20, 1, 10, 3));
        assert_eq!(counted.terminated.values().sum::<i64>(), 9);
        let pages: Vec<(i32, i64, i64, i64)> =
            pages(&all).iter().map(|page| (page.page_index, page.reached, page.here, page.dropped)).collect();
        assert_eq!(pages, [(-1, 20, 0, 2), (0, 18, 1, 0), (1, 14, 0, 4)]);
    }

    #[test]
    fn the_rate_is_that_of_this_minute_and_the_one_before() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let minute = |text: &str, events| Minute { minute: at(text), events, started: 0, completed: 0 };
        let minutes = [
            minute("2026-01-01T11:58:00Z", 1_000),
            minute("2026-01-01T11:59:00Z", 60),
            minute("2026-01-01T12:00:00Z", 30),
        ];
        let progress = Progress {
            title: String::new(),
            status: String::new(),
            events: 1_090,
            newest_at: Some(at("2026-01-01T12:00:29Z")),
            delay_ms: Some(-3),
            now: at("2026-01-01T12:00:30Z"),
        };
        let events = events(&progress, &minutes);
        assert_eq!((events.per_second, events.newest_age_ms, events.delay_ms), (1.0, Some(1_000), Some(0)));
    }
}
