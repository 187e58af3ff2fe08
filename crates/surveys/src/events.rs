//! The facts that surveys tell: ids and small fields, never an answer.
//!
//! | exchange | ordered by | facts |
//! | --- | --- | --- |
//! | `runtime.sessions` | session | started, completed, terminated |
//! | `runtime.answers` | session | a page was submitted |
//! | `runtime.quota` | bucket | a place was reserved, given back, filled; a bucket is full |
//! | `collectors.events` | collector | opened, paused, closed; an invite was used |
//!
//! Never by survey alone: a hot study would go through one key. Every envelope names `surveyId`, and `sessionId` where there
//! is one. Contracts are open: a field more is no new version, so producers and consumers may be updated in any order.

use crate::topology::{ANSWERS, COLLECTORS, QUOTA, SESSIONS};
use onceward::{Event, NewMessage, PublishError, TenantId, Tx, outbox};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// A respondent began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionStarted {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    /// The version of the definition that the session keeps to its end.
    pub version: i32,
}

/// A respondent came to the end, and every place that they held is filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionCompleted {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    /// How many pages their way had.
    pub pages: u32,
    /// From start to end.
    pub duration_ms: i64,
}

/// A session ended before its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionTerminated {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    pub reason: TerminationReason,
    /// Where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_id: Option<String>,
}

/// Why a session ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminationReason {
    /// An answer ruled them out.
    ScreenedOut,
    /// A bucket that they belong to has no place left.
    QuotaFull,
    /// They went away, as their page says.
    Abandoned,
    /// They were silent for too long.
    Expired,
    /// They asked to stop.
    ByRespondent,
}

impl TerminationReason {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ScreenedOut, Self::QuotaFull, Self::Abandoned, Self::Expired, Self::ByRespondent];

    /// Its name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ScreenedOut => "screened_out",
            Self::QuotaFull => "quota_full",
            Self::Abandoned => "abandoned",
            Self::Expired => "expired",
            Self::ByRespondent => "by_respondent",
        }
    }

    /// The reason of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

impl fmt::Display for TerminationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A page was submitted, for the first time or again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct AnswerUpserted {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub page_id: String,
    /// The page's place in the definition, from 0.
    pub page_index: u32,
    /// How many questions of the page have an answer.
    pub question_count: u32,
}

/// A session holds a place in a bucket until it completes, ends or is silent for too long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct QuotaReserved {
    pub bucket_id: Uuid,
    pub survey_id: Uuid,
    pub session_id: Uuid,
    /// How many places are reserved now; the same for the other counts.
    pub reserved: i32,
    pub filled: i32,
    pub target: i32,
}

/// A session gave its place back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct QuotaReleased {
    pub bucket_id: Uuid,
    pub survey_id: Uuid,
    pub session_id: Uuid,
    pub reserved: i32,
    pub filled: i32,
    pub target: i32,
}

/// A session completed in the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct QuotaFinalized {
    pub bucket_id: Uuid,
    pub survey_id: Uuid,
    pub session_id: Uuid,
    pub reserved: i32,
    pub filled: i32,
    pub target: i32,
}

/// A bucket has as many completes as it may have, or its target was lowered to that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BucketClosed {
    pub bucket_id: Uuid,
    pub survey_id: Uuid,
    pub filled: i32,
    pub target: i32,
}

/// A collector takes respondents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CollectorOpened {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
}

/// A collector takes no new respondents for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CollectorPaused {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
}

/// A collector takes no new respondents any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CollectorClosed {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
}

/// An invite that works once has been used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct InviteConsumed {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
    pub invite_id: Uuid,
    pub session_id: Uuid,
}

/// What the envelope says about an event beside its payload.
pub trait SurveyEvent: Event {
    /// The survey, and the session where there is one.
    fn about(&self) -> (Uuid, Option<Uuid>);
}

/// Publishes an event with the commit of `tx`, with `surveyId` and `sessionId` in its envelope.
pub async fn publish<E: SurveyEvent>(tx: &mut Tx, event: &E) -> Result<(), PublishError> {
    let tenant = tx.tenant().map_err(onceward::transport::TransportError::from)?.clone();
    let mut message = NewMessage::from_event(event, &tenant)?;
    let (survey_id, session_id) = event.about();
    message.extensions.insert("surveyId".to_owned(), survey_id.to_string().into());
    if let Some(session_id) = session_id {
        message.extensions.insert("sessionId".to_owned(), session_id.to_string().into());
    }
    outbox::send(tx, message).await?;
    Ok(())
}

/// An event: its name, its exchange, the id that orders it, what it is about, and the session if there is one.
macro_rules! survey_event {
    ($event:ty, $name:literal, $exchange:expr, $key:ident of $kind:literal, $session:expr) => {
        impl Event for $event {
            const TYPE: &'static str = concat!($name, ".v1");

            fn topic(&self, tenant: &TenantId) -> String {
                format!(concat!("{}:tenant.{}.", $name), $exchange, tenant)
            }

            fn ordering_key(&self) -> Option<String> {
                Some(self.$key.to_string())
            }

            fn aggregate(&self) -> Option<(String, String)> {
                Some(($kind.to_owned(), self.$key.to_string()))
            }
        }

        impl SurveyEvent for $event {
            fn about(&self) -> (Uuid, Option<Uuid>) {
                let session: fn(&$event) -> Option<Uuid> = $session;
                (self.survey_id, session(self))
            }
        }
    };
}

survey_event!(SessionStarted, "session.started", SESSIONS, session_id of "session", |event| Some(event.session_id));
survey_event!(SessionCompleted, "session.completed", SESSIONS, session_id of "session", |event| Some(event.session_id));
survey_event!(SessionTerminated, "session.terminated", SESSIONS, session_id of "session", |event| Some(event.session_id));
survey_event!(AnswerUpserted, "answer.upserted", ANSWERS, session_id of "session", |event| Some(event.session_id));
survey_event!(QuotaReserved, "quota.reserved", QUOTA, bucket_id of "bucket", |event| Some(event.session_id));
survey_event!(QuotaReleased, "quota.released", QUOTA, bucket_id of "bucket", |event| Some(event.session_id));
survey_event!(QuotaFinalized, "quota.finalized", QUOTA, bucket_id of "bucket", |event| Some(event.session_id));
survey_event!(BucketClosed, "quota.bucket_closed", QUOTA, bucket_id of "bucket", |_| None);
survey_event!(CollectorOpened, "collector.opened", COLLECTORS, collector_id of "collector", |_| None);
survey_event!(CollectorPaused, "collector.paused", COLLECTORS, collector_id of "collector", |_| None);
survey_event!(CollectorClosed, "collector.closed", COLLECTORS, collector_id of "collector", |_| None);
survey_event!(InviteConsumed, "invite.consumed", COLLECTORS, collector_id of "collector", |event| Some(event.session_id));

/// The contracts of all of them.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../schemas/session.started.v1.json"),
    include_str!("../schemas/session.completed.v1.json"),
    include_str!("../schemas/session.terminated.v1.json"),
    include_str!("../schemas/answer.upserted.v1.json"),
    include_str!("../schemas/quota.reserved.v1.json"),
    include_str!("../schemas/quota.released.v1.json"),
    include_str!("../schemas/quota.finalized.v1.json"),
    include_str!("../schemas/quota.bucket_closed.v1.json"),
    include_str!("../schemas/collector.opened.v1.json"),
    include_str!("../schemas/collector.paused.v1.json"),
    include_str!("../schemas/collector.closed.v1.json"),
    include_str!("../schemas/invite.consumed.v1.json"),
];
