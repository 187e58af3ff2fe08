//! All SQL of sessions: admission and the clock here, sessions as they are in `session`, steps in `steps`. The functions stand
//! in `migrations/0003_steps.sql`.

mod session;
mod steps;

pub(crate) use session::{Asked, Session, open_sessions, read_session};
pub(crate) use steps::{Submit, Written, steps};

use crate::{Settings, SurveyError, definition::Definition, events::TerminationReason};
use onceward::{DbError, Tx};
use postgres_types::Json;
use uuid::Uuid;

const PUBLISHED: &str = "
    SELECT definition FROM surveys.definition WHERE survey_id = $1 AND version = $2 AND published_at IS NOT NULL";
const ADMIT: &str = "
    SELECT refusal, fresh, session_id, survey_id, version, quota_revision FROM surveys.admit($1, $2, $3, $4, $5)";
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
