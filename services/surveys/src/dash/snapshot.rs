//! The state of the live view at one moment.

use super::{
    funnel::{self, FunnelPage},
    store,
};
use crate::SurveyError;
use jiff::Timestamp;
use onceward::Tx;
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The survey's counting progress.
pub(super) struct CountingProgress {
    pub(super) title: String,
    pub(super) status: String,
    pub(super) events: i64,
    pub(super) newest_at: Option<Timestamp>,
    pub(super) delay_ms: Option<i64>,
    pub(super) now: Timestamp,
    pub(super) lag_ms: i64,
}

/// The number of a collector's sessions at one position.
pub(super) struct PositionCount {
    pub(super) collector_id: Uuid,
    pub(super) collector_name: Option<String>,
    pub(super) page_id: String,
    pub(super) page_index: i32,
    pub(super) state: String,
    pub(super) sessions: i64,
}

/// The whole state at one moment. Session counts come from events, bucket counts from the table in which places are
/// reserved.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LiveSnapshot {
    pub(crate) survey_id: Uuid,
    pub(crate) title: String,
    pub(crate) status: String,
    /// By the database's clock.
    pub(crate) at: Timestamp,
    pub(crate) sessions: SessionCounts,
    pub(crate) pages: Vec<FunnelPage>,
    pub(crate) collectors: Vec<CollectorCounts>,
    pub(crate) quotas: Vec<BucketFill>,
    pub(crate) minutes: Vec<MinuteCounts>,
    pub(crate) events: EventStats,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SessionCounts {
    pub(crate) started: i64,
    pub(crate) active: i64,
    pub(crate) completed: i64,
    pub(crate) screened_out: i64,
    /// Ended early, or idle for so long that they count as gone; the latter are also in `active` until they end.
    pub(crate) left: i64,
    /// By reason, including screen-outs.
    pub(crate) terminated: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct CollectorCounts {
    pub(crate) collector_id: Uuid,
    pub(crate) name: Option<String>,
    pub(crate) started: i64,
    pub(crate) completed: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct BucketFill {
    pub(crate) bucket_id: Uuid,
    pub(crate) name: String,
    pub(crate) target: i32,
    pub(crate) max_overfill: i32,
    pub(crate) reserved: i32,
    pub(crate) filled: i32,
    pub(crate) closed: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MinuteCounts {
    pub(crate) minute: Timestamp,
    pub(crate) events: i64,
    pub(crate) started: i64,
    pub(crate) completed: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct EventStats {
    pub(crate) counted: i64,
    /// Averaged over the current minute and the one before.
    pub(crate) per_second: f64,
    pub(crate) newest_at: Option<Timestamp>,
    /// The age of the newest event; it grows while nothing happens.
    pub(crate) newest_age_ms: Option<i64>,
    /// The delay between the newest event and its counting.
    pub(crate) delay_ms: Option<i64>,
    /// The minimum lag of the counts; it grows while nothing is counted, even if nothing happens.
    pub(crate) lag_ms: i64,
}

/// Reads a snapshot. A session that has been idle for `idle_s` counts as gone. Fails if the survey does not exist.
pub(crate) async fn read(tx: &Tx, survey_id: Uuid, idle_s: u32) -> Result<LiveSnapshot, SurveyError> {
    let progress = store::find_progress(tx, survey_id).await?.ok_or(SurveyError::NotFound("survey"))?;
    let positions = store::list_positions(tx, survey_id).await?;
    let minutes = store::list_minutes(tx, survey_id).await?;
    let quotas = store::list_buckets(tx, survey_id).await?;
    let published = store::list_published_pages(tx, survey_id).await?;
    let idle = store::count_idle(tx, survey_id, idle_s).await?;
    let pages = funnel::pages(&published, &positions, &idle);
    Ok(LiveSnapshot {
        survey_id,
        sessions: sessions(&positions, &pages),
        pages,
        collectors: collectors(&positions),
        quotas,
        events: events(&progress, &minutes),
        minutes,
        title: progress.title,
        status: progress.status,
        at: progress.now,
    })
}

fn sessions(positions: &[PositionCount], pages: &[FunnelPage]) -> SessionCounts {
    let mut sessions = SessionCounts::default();
    for position in positions {
        sessions.started += position.sessions;
        match position.state.as_str() {
            "active" => sessions.active += position.sessions,
            "completed" => sessions.completed += position.sessions,
            reason => *sessions.terminated.entry(reason.to_owned()).or_default() += position.sessions,
        }
    }
    sessions.left = pages.iter().map(|page| page.left).sum();
    sessions.screened_out = sessions.terminated.get("screened_out").copied().unwrap_or_default();
    sessions
}

fn collectors(positions: &[PositionCount]) -> Vec<CollectorCounts> {
    let mut collectors: BTreeMap<Uuid, CollectorCounts> = BTreeMap::new();
    for PositionCount { collector_id, collector_name, state, sessions, .. } in positions {
        let counts = collectors.entry(*collector_id).or_insert_with(|| CollectorCounts {
            collector_id: *collector_id,
            name: collector_name.clone(),
            started: 0,
            completed: 0,
        });
        counts.started += sessions;
        counts.completed += if state == "completed" { *sessions } else { 0 };
    }
    collectors.into_values().collect()
}

fn events(progress: &CountingProgress, minutes: &[MinuteCounts]) -> EventStats {
    let now_ms = progress.now.as_millisecond();
    let minute_ms = 60_000;
    let window_from_ms = now_ms - now_ms.rem_euclid(minute_ms) - minute_ms;
    let recent = minutes.iter().filter(|minute| minute.minute.as_millisecond() >= window_from_ms);
    let count: i64 = recent.map(|minute| minute.events).sum();
    let per_second = count as f64 * 1000.0 / (now_ms - window_from_ms) as f64;
    EventStats {
        counted: progress.events,
        per_second: (per_second * 100.0).round() / 100.0,
        newest_at: progress.newest_at,
        newest_age_ms: progress.newest_at.map(|at| (now_ms - at.as_millisecond()).max(0)),
        delay_ms: progress.delay_ms.map(|delay| delay.max(0)),
        lag_ms: progress.lag_ms.max(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_covers_this_minute_and_the_one_before() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let minute = |text: &str, events| MinuteCounts { minute: at(text), events, started: 0, completed: 0 };
        let minutes = [
            minute("2026-01-01T11:58:00Z", 1_000),
            minute("2026-01-01T11:59:00Z", 60),
            minute("2026-01-01T12:00:00Z", 30),
        ];
        let progress = CountingProgress {
            title: String::new(),
            status: String::new(),
            events: 1_090,
            newest_at: Some(at("2026-01-01T12:00:29Z")),
            delay_ms: Some(-3),
            now: at("2026-01-01T12:00:30Z"),
            lag_ms: 0,
        };
        let events = events(&progress, &minutes);
        assert_eq!((events.per_second, events.newest_age_ms, events.delay_ms), (1.0, Some(1_000), Some(0)));
    }
}
