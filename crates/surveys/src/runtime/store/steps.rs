//! What steps come to, written all at once.

use super::{Status, seconds};
use crate::{
    Settings,
    events::TerminationReason,
    quota::{
        Moves,
        store::{Places, read_places},
    },
};
use onceward::{DbError, Tx};
use postgres_types::Json;
use serde_json::{Map, Value};
use uuid::Uuid;

const STEPS: &str = "
    SELECT item, bucket_id, moved, reserved, filled, target, closed
    FROM surveys.steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

/// What is to become of a session.
pub(crate) struct Written<'a> {
    pub session_id: Uuid,
    pub status: Status,
    pub moves: &'a Moves,
    pub submit: Option<&'a Submit>,
}

/// A page's submit.
pub(crate) struct Submit {
    pub page_id: String,
    pub attempt: i32,
    pub answers: Map<String, Value>,
    pub digest: [u8; 32],
    pub outcome: Value,
}

/// Moves the places of locked sessions and writes what becomes of them, as if they came one after the other. Who finds a
/// bucket full has ended, and what is kept as the outcome of the page is `outcome_full`. Gives each one's places.
pub(crate) async fn steps(
    tx: &Tx,
    all: &[Written<'_>],
    outcome_full: &Value,
    settings: &Settings,
) -> Result<Vec<Places>, DbError> {
    let sessions: Vec<Uuid> = all.iter().map(|one| one.session_id).collect();
    let statuses: Vec<&str> = all.iter().map(|one| one.status.as_str()).collect();
    let reasons: Vec<_> = all.iter().map(|one| one.status.reason().map(TerminationReason::as_str)).collect();
    let pages: Vec<_> = all.iter().map(|one| one.submit.map(|submit| submit.page_id.as_str())).collect();
    let attempts: Vec<_> = all.iter().map(|one| one.submit.map(|submit| submit.attempt)).collect();
    let answers: Vec<_> = all.iter().map(|one| one.submit.map(|submit| Json(&submit.answers))).collect();
    let digests: Vec<_> = all.iter().map(|one| one.submit.map(|submit| submit.digest.as_slice())).collect();
    let outcomes: Vec<_> = all.iter().map(|one| one.submit.map(|submit| &submit.outcome)).collect();
    let (mut items, mut buckets, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for (item, one) in (1_i32..).zip(all) {
        for (kind, bucket) in one.moves.each() {
            items.push(item);
            buckets.push(bucket);
            kinds.push(kind);
        }
    }
    let (reservation_s, session_s) = (seconds(settings.reservation_s), seconds(settings.session_s));
    let rows = tx
        .query(
            STEPS,
            &[
                &sessions,
                &statuses,
                &reasons,
                &pages,
                &attempts,
                &answers,
                &digests,
                &outcomes,
                outcome_full,
                &items,
                &buckets,
                &kinds,
                &reservation_s,
                &session_s,
            ],
        )
        .await?;
    Ok(read_places(&rows, all.len()))
}
