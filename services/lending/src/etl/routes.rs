//! The HTTP routes.

use super::{store, window::WindowLength};
use crate::Settings;
use jiff::Timestamp;
use onceward::{
    prelude::*,
    web::axum::extract::{Query, State},
};
use serde::Deserialize;
use std::sync::Arc;

pub(crate) fn routes() -> Routes<Arc<Settings>> {
    Routes::new()
        .get("/api/etl/status", Access::role("etl:read"), status)
        .summary("Show the status of the reporting window that begins at `?window=`, or of the latest one")
        .responds(200, "etl.status.v1")
}

#[derive(Deserialize)]
struct StatusQuery {
    window: Option<String>,
}

async fn status(
    State(settings): State<Arc<Settings>>,
    Query(query): Query<StatusQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let start = match query.window.as_deref() {
        None | Some("latest") => store::latest_start(&reader.tx).await?.ok_or_else(|| no_window_yet(&settings))?,
        Some(text) => text.parse().map_err(|_| invalid_window())?,
    };
    match store::find_status(&reader.tx, start).await? {
        Some(status) => reader.respond(&status).await,
        None => Err(Problem::new(codes::NOT_FOUND).detail(why_missing(start, Timestamp::now(), &settings))),
    }
}

fn invalid_window() -> Problem {
    Problem::new(codes::INVALID_REQUEST)
        .detail("`window` must be `latest` or the start of a window, such as 2026-01-31T09:05:00Z.")
}

fn no_window_yet(settings: &Settings) -> Problem {
    let detail =
        format!("There is no window yet. The first one is opened with the next tick of {:?} (UTC).", settings.etl_cron);
    Problem::new(codes::NOT_FOUND).detail(detail)
}

fn why_missing(start: Timestamp, now: Timestamp, settings: &Settings) -> String {
    let length = WindowLength::new(i32::try_from(settings.etl_window_minutes).unwrap_or(i32::MAX));
    let (begins, ends) = (length.start_of(start), length.end_of(length.start_of(start)));
    if begins != start {
        format!(
            "No window begins at {start}. That time is within the window that begins at {begins}; request that one."
        )
    } else if ends > now {
        format!("The window ends at {ends} and is opened with the next tick after that. Try again then.")
    } else {
        "The window was never opened: no events in it are known, and reporting began later. Request `latest`."
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_for_a_missing_window_says_what_to_do() {
        let now = "2026-01-01T10:17:00Z".parse().unwrap();
        let check = |start: &str, expected: &str| {
            let detail = why_missing(start.parse().unwrap(), now, &Settings::default());
            assert!(detail.contains(expected), "{detail}");
        };
        check("2026-01-01T10:07:00Z", "begins at 2026-01-01T10:05:00Z; request that one");
        check("2026-01-01T10:15:00Z", "ends at 2026-01-01T10:20:00Z");
        check("2026-01-01T09:00:00Z", "no events in it are known");
    }
}
