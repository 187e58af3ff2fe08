//! Sessions: admission, reading with their answers so far, and expiry.

use crate::{Settings, SurveyError, definition::AnswersByPage, events::TerminationReason};
use onceward::{DbError, Row, Tx};
use postgres_types::Json;
use serde_json::Value;
use std::fmt;
use uuid::Uuid;

const PUBLISHED: &str = "
    SELECT definition
    FROM surveys.definition
    WHERE survey_id = $1 AND version = $2 AND published_at IS NOT NULL";
const TITLE: &str = "SELECT title FROM surveys.survey WHERE survey_id = $1";
const COLLECTOR_SURVEY_TITLE: &str = "
    SELECT s.title
    FROM surveys.collector c
    JOIN surveys.survey s ON s.survey_id = c.survey_id AND s.tenant_id = c.tenant_id
    WHERE c.collector_id = $1 AND s.status <> 'draft'";
const ADMIT: &str = "
    SELECT refusal, fresh, recent, session_id, survey_id, version, quota_revision
    FROM surveys.admit($1, $2, $3, $4, $5)";
const OPEN: &str = "
    SELECT item, survey_id, collector_id, version, status, reason, held, quota_revision, duration_ms, answers, attempt,
        body_digest, outcome
    FROM surveys.open_sessions($1, $2, $3)";
const EXPIRE: &str = "
    SELECT session_id, survey_id, collector_id, version, bucket_id, reserved, filled, target
    FROM surveys.expire($1, $2, $3)";

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionStatus {
    Active,
    Completed,
    Terminated(TerminationReason),
}

impl SessionStatus {
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

    fn parse(status: &str, reason: Option<&str>) -> Result<Self, SurveyError> {
        match (status, reason.and_then(TerminationReason::from_name)) {
            ("active", _) => Ok(Self::Active),
            ("completed", _) => Ok(Self::Completed),
            ("terminated", Some(reason)) => Ok(Self::Terminated(reason)),
            _ => Err(SurveyError::CorruptData(format!("a session has the unknown status {status:?}"))),
        }
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Some(reason) => write!(f, "{} ({reason})", self.as_str()),
            None => f.write_str(self.as_str()),
        }
    }
}

/// The result of admission.
pub(crate) enum Admission {
    Refused(AdmissionRefusal),
    /// Admitted, with a new or an existing session; `is_recent` if it was started within the last minute.
    Admitted {
        is_new: bool,
        is_recent: bool,
        session_id: Uuid,
        survey_id: Uuid,
        version: i32,
        quota_revision: i32,
    },
}

/// Why a respondent is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionRefusal {
    /// There is no such collector or invite, or the survey was never published.
    Unknown,
    Closed,
    Paused,
    NotOpenYet,
    CapReached,
    /// The invite was used to start a session, which has ended.
    InviteUsed,
}

impl AdmissionRefusal {
    /// Parses a word that `surveys.admit` returns.
    fn parse(word: &str) -> Result<Self, SurveyError> {
        match word {
            "unknown" => Ok(Self::Unknown),
            "closed" => Ok(Self::Closed),
            "paused" => Ok(Self::Paused),
            "not_open_yet" => Ok(Self::NotOpenYet),
            "cap_reached" => Ok(Self::CapReached),
            "invite_used" => Ok(Self::InviteUsed),
            _ => Err(SurveyError::CorruptData(format!("surveys.admit returned the unknown refusal {word:?}"))),
        }
    }
}

/// A session to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLookup<'a> {
    pub session_id: Uuid,
    /// The page whose last submit is read, or an empty string.
    pub page_id: &'a str,
}

/// A session with its answers.
pub(crate) struct SurveySession {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    pub status: SessionStatus,
    /// The buckets in which the session holds a place.
    pub held: Vec<Uuid>,
    pub quota_revision: i32,
    pub duration_ms: i64,
    pub answers: AnswersByPage,
    /// The last submit of the requested page.
    pub last: Option<LastSubmit>,
}

/// A page's last submit.
pub(crate) struct LastSubmit {
    pub attempt: i32,
    pub digest: Vec<u8>,
    pub outcome: Value,
}

/// A change that expiry made.
pub(crate) enum ExpiryChange {
    /// A session released a place.
    PlaceReleased(ExpiredPlace),
    /// A session ended.
    SessionEnded { session_id: Uuid, survey_id: Uuid, collector_id: Uuid, version: i32 },
    /// A session continues without its places.
    SessionContinues,
}

/// A released place, with its bucket's counts afterwards.
pub(crate) struct ExpiredPlace {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub bucket_id: Uuid,
    pub reserved: i32,
    pub filled: i32,
    pub target: i32,
}

/// Returns a published version of a definition as it was written.
pub(crate) async fn find_published(tx: &Tx, survey_id: Uuid, version: i32) -> Result<Value, SurveyError> {
    let row = tx.query_opt(PUBLISHED, &[&survey_id, &version]).await?.ok_or(SurveyError::NotFound("survey"))?;
    Ok(row.get(0))
}

pub(crate) async fn survey_title(tx: &Tx, survey_id: Uuid) -> Result<String, SurveyError> {
    let row = tx.query_opt(TITLE, &[&survey_id]).await?;
    Ok(row.ok_or(SurveyError::NotFound("survey"))?.get(0))
}

/// Returns the title of a collector's survey. Fails unless the survey was published at least once.
pub(crate) async fn collector_survey_title(tx: &Tx, collector_id: Uuid) -> Result<String, SurveyError> {
    let row = tx.query_opt(COLLECTOR_SURVEY_TITLE, &[&collector_id]).await?;
    Ok(row.ok_or(SurveyError::NotFound("survey"))?.get(0))
}

/// Creates a session, or finds the one that the same digest or invite has started.
pub(crate) async fn admit(
    tx: &Tx,
    collector_id: Uuid,
    invite_id: Option<Uuid>,
    digest: &[u8],
    settings: &Settings,
) -> Result<Admission, SurveyError> {
    let new_id = Uuid::now_v7();
    let row = tx.query_one(ADMIT, &[&new_id, &collector_id, &invite_id, &digest, &to_i32(settings.session_s)]).await?;
    Ok(match row.get::<_, Option<&str>>(0) {
        Some(refusal) => Admission::Refused(AdmissionRefusal::parse(refusal)?),
        None => Admission::Admitted {
            is_new: row.get(1),
            is_recent: row.get(2),
            session_id: row.get(3),
            survey_id: row.get(4),
            version: row.get(5),
            quota_revision: row.get(6),
        },
    })
}

/// Locks the sessions until the transaction ends. Returns each of them or its error, in the order of `lookups`.
pub(crate) async fn lock_sessions(
    tx: &Tx,
    lookups: &[SessionLookup<'_>],
) -> Result<Vec<Result<SurveySession, SurveyError>>, DbError> {
    open_sessions(tx, lookups, true).await
}

/// Reads the current state of a session for display, without locking it.
pub(crate) async fn read_session(tx: &Tx, session_id: Uuid, page_id: &str) -> Result<SurveySession, SurveyError> {
    let session = open_sessions(tx, &[SessionLookup { session_id, page_id }], false).await?.pop();
    session.unwrap_or(Err(SurveyError::NotFound("session")))
}

async fn open_sessions(
    tx: &Tx,
    lookups: &[SessionLookup<'_>],
    lock: bool,
) -> Result<Vec<Result<SurveySession, SurveyError>>, DbError> {
    let ids: Vec<Uuid> = lookups.iter().map(|lookup| lookup.session_id).collect();
    let pages: Vec<&str> = lookups.iter().map(|lookup| lookup.page_id).collect();
    let mut sessions: Vec<_> = lookups.iter().map(|_| Err(SurveyError::NotFound("session"))).collect();
    for row in tx.query(OPEN, &[&ids, &pages, &lock]).await? {
        let index = row.get::<_, i32>(0) as usize - 1;
        sessions[index] = parse_session(ids[index], &row);
    }
    Ok(sessions)
}

fn parse_session(session_id: Uuid, row: &Row) -> Result<SurveySession, SurveyError> {
    let Json(answers) = row.try_get(9).map_err(DbError::from)?;
    let attempt: Option<i32> = row.get(10);
    Ok(SurveySession {
        session_id,
        survey_id: row.get(1),
        collector_id: row.get(2),
        version: row.get(3),
        status: SessionStatus::parse(row.get(4), row.get(5))?,
        held: row.get(6),
        quota_revision: row.get(7),
        duration_ms: row.get(8),
        answers,
        last: attempt.map(|attempt| LastSubmit { attempt, digest: row.get(11), outcome: row.get(12) }),
    })
}

/// Releases the places of up to `expire_batch` inactive sessions, and ends those that were inactive for longer.
pub(crate) async fn expire(tx: &Tx, settings: &Settings) -> Result<Vec<ExpiryChange>, DbError> {
    let (reservation_s, session_s) = (to_i32(settings.reservation_s), to_i32(settings.session_s));
    let rows = tx.query(EXPIRE, &[&reservation_s, &session_s, &to_i32(settings.expire_batch)]).await?;
    Ok(rows.iter().map(parse_expiry).collect())
}

fn parse_expiry(row: &Row) -> ExpiryChange {
    let (session_id, survey_id): (Option<Uuid>, Uuid) = (row.get(0), row.get(1));
    match (session_id, row.get::<_, Option<Uuid>>(4)) {
        (Some(session_id), Some(bucket_id)) => {
            let (reserved, filled, target) = (row.get(5), row.get(6), row.get(7));
            ExpiryChange::PlaceReleased(ExpiredPlace { session_id, survey_id, bucket_id, reserved, filled, target })
        }
        (Some(session_id), None) => {
            ExpiryChange::SessionEnded { session_id, survey_id, collector_id: row.get(2), version: row.get(3) }
        }
        (None, _) => ExpiryChange::SessionContinues,
    }
}

/// Converts a setting to the type of a SQL parameter.
pub(super) fn to_i32(setting: u32) -> i32 {
    i32::try_from(setting).unwrap_or(i32::MAX)
}
