//! Sessions as they are, with what was answered so far.

use super::Status;
use crate::{SurveyError, definition::Answers};
use onceward::{DbError, Row, Tx};
use postgres_types::Json;
use serde_json::Value;
use uuid::Uuid;

const OPEN: &str = "
    SELECT item, survey_id, collector_id, version, status, reason, held, quota_revision, duration_ms, answers, attempt,
        body_digest, outcome
    FROM surveys.open_sessions($1, $2, $3)";

/// A session that is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub session_id: Uuid,
    /// The page whose last submit is to be known, or nothing.
    pub page_id: &'a str,
}

/// A session.
pub(crate) struct Session {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    pub status: Status,
    pub held: Vec<Uuid>,
    pub quota_revision: i32,
    pub duration_ms: i64,
    pub answers: Answers,
    /// The last submit of the page that was asked about.
    pub last: Option<LastSubmit>,
}

/// A page's last submit.
pub(crate) struct LastSubmit {
    pub attempt: i32,
    pub digest: Vec<u8>,
    pub outcome: Value,
}

/// The sessions, locked until the transaction ends, in the order in which they are asked for; or what is wrong with each.
pub(crate) async fn open_sessions(tx: &Tx, asked: &[Asked<'_>]) -> Result<Vec<Result<Session, SurveyError>>, DbError> {
    sessions(tx, asked, true).await
}

/// The session as it is at the moment: for showing it. Nobody waits for who only looks.
pub(crate) async fn read_session(tx: &Tx, session_id: Uuid, page_id: &str) -> Result<Session, SurveyError> {
    let found = sessions(tx, &[Asked { session_id, page_id }], false).await?.pop();
    found.unwrap_or(Err(SurveyError::Missing("session")))
}

async fn sessions(tx: &Tx, asked: &[Asked<'_>], locked: bool) -> Result<Vec<Result<Session, SurveyError>>, DbError> {
    let ids: Vec<Uuid> = asked.iter().map(|one| one.session_id).collect();
    let pages: Vec<&str> = asked.iter().map(|one| one.page_id).collect();
    let mut found: Vec<_> = asked.iter().map(|_| Err(SurveyError::Missing("session"))).collect();
    for row in tx.query(OPEN, &[&ids, &pages, &locked]).await? {
        let at = row.get::<_, i32>(0) as usize - 1;
        found[at] = read(ids[at], &row);
    }
    Ok(found)
}

fn read(session_id: Uuid, row: &Row) -> Result<Session, SurveyError> {
    let Json(answers) = row.try_get(9).map_err(DbError::from)?;
    let attempt: Option<i32> = row.get(10);
    Ok(Session {
        session_id,
        survey_id: row.get(1),
        collector_id: row.get(2),
        version: row.get(3),
        status: Status::read(row.get(4), row.get(5))?,
        held: row.get(6),
        quota_revision: row.get(7),
        duration_ms: row.get(8),
        answers,
        last: attempt.map(|attempt| LastSubmit { attempt, digest: row.get(11), outcome: row.get(12) }),
    })
}
