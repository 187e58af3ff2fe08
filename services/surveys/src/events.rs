//! The events that surveys publish: ids and small fields, never an answer.
//!
//! | exchange | ordered by | events |
//! | --- | --- | --- |
//! | `runtime.sessions` | session | a session was started, completed, terminated, erased |
//! | `runtime.answers` | session | a page was submitted |
//! | `runtime.quota` | bucket | a place was reserved, released, filled; a bucket was closed |
//! | `collectors.events` | collector | a collector was opened, paused, closed; an invite was used |
//!
//! Events are never ordered by survey alone: all events of a busy survey would share one key. Every envelope contains
//! `surveyId`, and `sessionId` if the event belongs to a session. The contracts are open: an additional field is not a
//! new version, so producers and consumers may be updated in any order.

use crate::topology::{ANSWERS, COLLECTORS, QUOTA, SESSIONS, tenant_key};
use onceward::{Event, NewMessage, PublishError, Service, TenantId, Tx, outbox};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// A respondent started a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionStarted {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    /// The version of the definition that the session uses until it ends.
    pub version: i32,
}

/// A respondent completed the session, and every place it held is filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionCompleted {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    /// The number of pages on the respondent's path.
    pub pages: u32,
    /// The time from start to completion.
    pub duration_ms: i64,
}

/// A session ended without being completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionTerminated {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
    pub version: i32,
    pub reason: TerminationReason,
    /// The page at which the session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_id: Option<String>,
}

/// The answers of a session were permanently removed. Consumers that keep copies must remove theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SessionErased {
    pub session_id: Uuid,
    pub survey_id: Uuid,
    pub collector_id: Uuid,
}

/// Why a session ended without being completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminationReason {
    /// An answer screened the respondent out.
    ScreenedOut,
    /// A bucket that applies to the respondent has no place left.
    QuotaFull,
    /// The respondent left, as their page reported.
    Abandoned,
    /// The session was inactive for too long.
    Expired,
    /// The respondent asked to stop.
    ByRespondent,
}

impl TerminationReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::ScreenedOut, Self::QuotaFull, Self::Abandoned, Self::Expired, Self::ByRespondent];

    /// Returns the reason's name in messages and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ScreenedOut => "screened_out",
            Self::QuotaFull => "quota_full",
            Self::Abandoned => "abandoned",
            Self::Expired => "expired",
            Self::ByRespondent => "by_respondent",
        }
    }

    /// Returns the reason with this name.
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
    /// The page's index in the definition, from 0.
    pub page_index: u32,
    /// The number of questions on the page that have an answer.
    pub question_count: u32,
    /// The next page and its index. When everything is answered, there is only an index, the one after the last page;
    /// when the session ended with this page, both are absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_index: Option<u32>,
}

/// A session reserved a place in a bucket, until it completes, ends or is inactive for too long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct QuotaReserved {
    pub bucket_id: Uuid,
    pub survey_id: Uuid,
    pub session_id: Uuid,
    /// The number of reserved places after this change; the other counts likewise.
    pub reserved: i32,
    pub filled: i32,
    pub target: i32,
}

/// A session released its place.
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

/// A session completed and filled its place in the bucket.
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

/// A bucket's completes reached its target, or its target was lowered to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BucketClosed {
    pub bucket_id: Uuid,
    pub survey_id: Uuid,
    pub filled: i32,
    pub target: i32,
}

/// A collector admits respondents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CollectorOpened {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
}

/// A collector admits no new respondents for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CollectorPaused {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
}

/// A collector admits no new respondents any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CollectorClosed {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
}

/// A single-use invite has been used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct InviteConsumed {
    pub collector_id: Uuid,
    pub survey_id: Uuid,
    pub invite_id: Uuid,
    pub session_id: Uuid,
}

/// An event whose envelope contains the ids of its survey and session.
pub trait SurveyEvent: Event {
    /// Returns the survey, and the session if the event belongs to one.
    fn survey_and_session(&self) -> (Uuid, Option<Uuid>);
}

/// Publishes an event with the commit of `tx`, with `surveyId` and `sessionId` in its envelope.
pub async fn publish<E: SurveyEvent>(tx: &mut Tx, event: &E) -> Result<(), PublishError> {
    let tenant = tx.tenant().map_err(onceward::BusError::from)?.clone();
    let mut message = NewMessage::from_event(event, &tenant)?;
    let (survey_id, session_id) = event.survey_and_session();
    message.extensions.insert("surveyId".to_owned(), survey_id.to_string().into());
    if let Some(session_id) = session_id {
        message.extensions.insert("sessionId".to_owned(), session_id.to_string().into());
    }
    outbox::send(tx, message).await?;
    Ok(())
}

/// Implements [`SurveyEvent`] for a type: its name, its exchange, its ordering key with the kind of aggregate, and its
/// session if it has one.
macro_rules! survey_event {
    ($event:ty, $name:literal, $exchange:expr, $key:ident of $kind:literal, $session:expr) => {
        impl Event for $event {
            const TYPE: &'static str = concat!($name, ".v1");
            const EXCHANGE: &'static str = $exchange;

            fn routing_key(&self, tenant: &TenantId) -> String {
                tenant_key(tenant, $name)
            }

            fn ordering_key(&self) -> Option<String> {
                Some(self.$key.to_string())
            }

            fn aggregate(&self) -> Option<(String, String)> {
                Some(($kind.to_owned(), self.$key.to_string()))
            }
        }

        impl SurveyEvent for $event {
            fn survey_and_session(&self) -> (Uuid, Option<Uuid>) {
                let session: fn(&$event) -> Option<Uuid> = $session;
                (self.survey_id, session(self))
            }
        }
    };
}

survey_event!(SessionStarted, "session.started", SESSIONS, session_id of "session", |event| Some(event.session_id));
survey_event!(SessionCompleted, "session.completed", SESSIONS, session_id of "session", |event| Some(event.session_id));
survey_event!(SessionTerminated, "session.terminated", SESSIONS, session_id of "session", |event| Some(event.session_id));
survey_event!(SessionErased, "session.erased", SESSIONS, session_id of "session", |event| Some(event.session_id));
survey_event!(AnswerUpserted, "answer.upserted", ANSWERS, session_id of "session", |event| Some(event.session_id));
survey_event!(QuotaReserved, "quota.reserved", QUOTA, bucket_id of "bucket", |event| Some(event.session_id));
survey_event!(QuotaReleased, "quota.released", QUOTA, bucket_id of "bucket", |event| Some(event.session_id));
survey_event!(QuotaFinalized, "quota.finalized", QUOTA, bucket_id of "bucket", |event| Some(event.session_id));
survey_event!(BucketClosed, "quota.bucket_closed", QUOTA, bucket_id of "bucket", |_| None);
survey_event!(CollectorOpened, "collector.opened", COLLECTORS, collector_id of "collector", |_| None);
survey_event!(CollectorPaused, "collector.paused", COLLECTORS, collector_id of "collector", |_| None);
survey_event!(CollectorClosed, "collector.closed", COLLECTORS, collector_id of "collector", |_| None);
survey_event!(InviteConsumed, "invite.consumed", COLLECTORS, collector_id of "collector", |event| Some(event.session_id));

/// Declares every event of this module as published by the service.
pub(crate) fn declare(service: Service) -> Service {
    service
        .schemas(SCHEMAS)
        .publishes::<SessionStarted>()
        .publishes::<SessionCompleted>()
        .publishes::<SessionTerminated>()
        .publishes::<SessionErased>()
        .publishes::<AnswerUpserted>()
        .publishes::<QuotaReserved>()
        .publishes::<QuotaReleased>()
        .publishes::<QuotaFinalized>()
        .publishes::<BucketClosed>()
        .publishes::<CollectorOpened>()
        .publishes::<CollectorPaused>()
        .publishes::<CollectorClosed>()
        .publishes::<InviteConsumed>()
}

/// The JSON Schemas of all events.
const SCHEMAS: &[&str] = &[
    include_str!("../schemas/session.started.v1.json"),
    include_str!("../schemas/session.completed.v1.json"),
    include_str!("../schemas/session.terminated.v1.json"),
    include_str!("../schemas/session.erased.v1.json"),
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
