//! The HTTP surface.

use super::{store, window::Cut};
use crate::Settings;
use jiff::Timestamp;
use onceward::{prelude::*, web::axum::extract::Query};
use serde::Deserialize;
use std::sync::Arc;

pub(crate) fn routes(routes: Routes, settings: &Arc<Settings>) -> Routes {
    let settings = settings.clone();
    routes
        .get("/api/etl/status", Access::role("etl:read"), move |query, reader| status(query, reader, settings.clone()))
        .summary("Tell how far the reporting window is that begins at ?window=, or the latest one")
        .responds(200, "etl.status.v1")
}

#[derive(Deserialize)]
struct Wanted {
    window: Option<String>,
}

async fn status(Query(wanted): Query<Wanted>, reader: Reader, settings: Arc<Settings>) -> Result<Response, Problem> {
    let start = match wanted.window.as_deref() {
        None | Some("latest") => store::latest_start(&reader.tx).await?.ok_or_else(|| none_yet(&settings))?,
        Some(text) => text.parse().map_err(|_| unreadable())?,
    };
    match store::find_status(&reader.tx, start).await? {
        Some(shown) => reader.respond(&shown).await,
        None => Err(Problem::new(codes::NOT_FOUND).detail(why_missing(start, Timestamp::now(), &settings))),
    }
}

fn unreadable() -> Problem {
    Problem::new(codes::INVALID_REQUEST)
        .detail("Give `window` as `latest`, or as the time at which it begins, such as 2026-01-31T09:05:00Z.")
}

fn none_yet(settings: &Settings) -> Problem {
    let detail =
        format!("There is no window yet; the first comes with the next tick of {:?} (UTC).", settings.etl_cron);
    Problem::new(codes::NOT_FOUND).detail(detail)
}

fn why_missing(start: Timestamp, now: Timestamp, settings: &Settings) -> String {
    let cut = Cut::new(i32::try_from(settings.etl_window_minutes).unwrap_or(i32::MAX));
    let (begins, ends) = (cut.start_of(start), cut.end_of(cut.start_of(start)));
    if begins != start {
        format!("No window begins at {start}; that time is within the one that begins at {begins}: ask for that.")
    } else if ends > now {
        format!("The window ends at {ends} and is made with the next tick after that: ask again then.")
    } else {
        "The window was not made: nothing is known to have happened in it, and reporting began later. Ask for `latest`."
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_window_that_is_not_there_is_told_what_to_do() {
        let now = "2026-01-01T10:17:00Z".parse().unwrap();
        let check = |start: &str, expected: &str| {
            let said = why_missing(start.parse().unwrap(), now, &Settings::default());
            assert!(said.contains(expected), "{said}");
        };
        check("2026-01-01T10:07:00Z", "begins at 2026-01-01T10:05:00Z: ask for that");
        check("2026-01-01T10:15:00Z", "ends at 2026-01-01T10:20:00Z");
        check("2026-01-01T09:00:00Z", "nothing is known to have happened");
    }
}
