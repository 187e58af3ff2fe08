//! All SQL of sessions. The functions stand in `migrations/0003_steps.sql`.

use crate::{
    Settings, SurveyError,
    definition::{Answers, Definition},
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

const PUBLISHED: &str = "
    SELECT definition FROM surveys.definition WHERE survey_id = $1 AND version = $2 AND published_at IS NOT NULL";
const ADMIT: &str = "
    SELECT refusal, fresh, session_id, survey_id, version, quota_revision FROM surveys.admit($1, $2, $3, $4, $5)";
const OPEN: &str = "
    SELECT survey_id, collector_id, version, status, reason, held, filled, quota_revision, duration_ms, answers, attempt,
        body_digest, outcome
    FROM surveys.open_session($1, $2, $3)";
const STEP: &str = "
    SELECT bucket_id, moved, reserved, filled, target, closed FROM surveys.step($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const SUBMIT: &str = "
    SELECT bucket_id, moved, reserved, filled, target, closed
    FROM surveys.submit_page($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const EXPIRE: &str = "
    SELECT session_id, survey_id, collector_id, version, bucket_id, reserved, filled, target FROM surveys.expire($1, $2, $3)";

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Active,
    Completed,
    Terminated(TerminationReason),
}

impl Status {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Terminated(_) => "terminated",
        }
    }

    pub(crate) const fn reason(self) -> Option<TerminationReason> {
        match self {
            Self::Terminated(reason) => Some(reason),
            _ => None,
        }
    }

    fn read(status: &str, reason: Option<&str>) -> Result<Self, SurveyError> {
        match (status, reason.and_then(TerminationReason::from_name)) {
            ("active", _) => Ok(Self::Active),
            ("completed", _) => Ok(Self::Completed),
            ("terminated", Some(reason)) => Ok(Self::Terminated(reason)),
            _ => Err(SurveyError::Corrupt(format!("a session has the status {status:?}"))),
        }
    }
}

/// What admission says.
pub(crate) enum Admission {
    /// Not in, for this reason.
    Refused(String),
    /// In, with a session that is new or was begun before.
    In { fresh: bool, session_id: Uuid, survey_id: Uuid, version: i32, quota_revision: i32 },
}

/// A session with its lock.
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
    pub last: Option<Submitted>,
}

/// A page's last submit.
pub(crate) struct Submitted {
    pub attempt: i32,
    pub digest: Vec<u8>,
    pub outcome: Value,
}

/// A page's submit, to be written.
pub(crate) struct Submit<'a> {
    pub page_id: &'a str,
    pub attempt: i32,
    pub answers: &'a Map<String, Value>,
    pub digest: &'a [u8],
    pub outcome: &'a Value,
    pub outcome_full: &'a Value,
}

/// What became of a session that was silent.
pub(crate) struct Silent {
    /// None: it goes on without its places.
    pub session_id: Option<Uuid>,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    /// A place that it gave back, with the bucket's counts; else it ended.
    pub place: Option<(Uuid, i32, i32, i32)>,
}

pub(crate) async fn find_published(tx: &Tx, survey_id: Uuid, version: i32) -> Result<Definition, SurveyError> {
    let row = tx.query_opt(PUBLISHED, &[&survey_id, &version]).await?.ok_or(SurveyError::Missing("survey"))?;
    let Json(definition) = row.try_get(0).map_err(DbError::from)?;
    Ok(definition)
}

pub(crate) async fn admit(
    tx: &Tx,
    collector_id: Uuid,
    invite_id: Option<Uuid>,
    digest: &[u8],
    settings: &Settings,
) -> Result<Admission, DbError> {
    let given = Uuid::now_v7();
    let row = tx.query_one(ADMIT, &[&given, &collector_id, &invite_id, &digest, &seconds(settings.session_s)]).await?;
    Ok(match row.get::<_, Option<String>>(0) {
        Some(refusal) => Admission::Refused(refusal),
        None => Admission::In {
            fresh: row.get(1),
            session_id: row.get(2),
            survey_id: row.get(3),
            version: row.get(4),
            quota_revision: row.get(5),
        },
    })
}

/// The session, locked until the transaction ends, with the last submit of `page_id`.
pub(crate) async fn open_session(tx: &Tx, session_id: Uuid, page_id: &str) -> Result<Session, SurveyError> {
    session(tx, session_id, page_id, true).await
}

/// The session as it is at the moment: for showing it. Nobody waits for who only looks.
pub(crate) async fn read_session(tx: &Tx, session_id: Uuid, page_id: &str) -> Result<Session, SurveyError> {
    session(tx, session_id, page_id, false).await
}

async fn session(tx: &Tx, session_id: Uuid, page_id: &str, locked: bool) -> Result<Session, SurveyError> {
    let row = tx.query_opt(OPEN, &[&session_id, &page_id, &locked]).await?.ok_or(SurveyError::Missing("session"))?;
    let Json(answers) = row.try_get(9).map_err(DbError::from)?;
    let attempt: Option<i32> = row.get(10);
    Ok(Session {
        session_id,
        survey_id: row.get(0),
        collector_id: row.get(1),
        version: row.get(2),
        status: Status::read(row.get(3), row.get(4))?,
        held: row.get(5),
        quota_revision: row.get(7),
        duration_ms: row.get(8),
        answers,
        last: attempt.map(|attempt| Submitted { attempt, digest: row.get(11), outcome: row.get(12) }),
    })
}

/// Moves the places of a locked session, and writes what becomes of it unless a bucket is full.
pub(crate) async fn step(
    tx: &Tx,
    session_id: Uuid,
    status: Status,
    moves: &Moves,
    settings: &Settings,
) -> Result<Places, DbError> {
    let Moves { release, reserve, finalize, fill } = moves;
    let reason = status.reason().map(TerminationReason::as_str);
    let (reservation_s, session_s) = (seconds(settings.reservation_s), seconds(settings.session_s));
    let status = status.as_str();
    let rows = tx
        .query(STEP, &[&session_id, &status, &reason, release, reserve, finalize, fill, &reservation_s, &session_s])
        .await?;
    Ok(read_places(&rows))
}

/// The same, with the answers of a page.
pub(crate) async fn submit(
    tx: &Tx,
    session_id: Uuid,
    status: Status,
    moves: &Moves,
    submit: Submit<'_>,
    settings: &Settings,
) -> Result<Places, DbError> {
    let Submit { page_id, attempt, answers, digest, outcome, outcome_full } = submit;
    let reason = status.reason().map(TerminationReason::as_str);
    let (reservation_s, session_s) = (seconds(settings.reservation_s), seconds(settings.session_s));
    let rows = tx
        .query(
            SUBMIT,
            &[
                &session_id,
                &page_id,
                &attempt,
                &Json(answers),
                &digest,
                outcome,
                outcome_full,
                &status.as_str(),
                &reason,
                &moves.release,
                &moves.reserve,
                &reservation_s,
                &session_s,
            ],
        )
        .await?;
    Ok(read_places(&rows))
}

/// Takes care of up to `limit` silent sessions.
pub(crate) async fn expire(tx: &Tx, settings: &Settings) -> Result<Vec<Silent>, DbError> {
    let (reservation_s, session_s) = (seconds(settings.reservation_s), seconds(settings.session_s));
    let rows = tx.query(EXPIRE, &[&reservation_s, &session_s, &seconds(settings.expire_batch)]).await?;
    let silent = rows.iter().map(|row| Silent {
        session_id: row.get(0),
        survey_id: row.get(1),
        collector_id: row.get(2),
        version: row.get(3),
        place: row.get::<_, Option<Uuid>>(4).map(|bucket| (bucket, row.get(5), row.get(6), row.get(7))),
    });
    Ok(silent.collect())
}

fn seconds(set: u32) -> i32 {
    i32::try_from(set).unwrap_or(i32::MAX)
}
