//! What is counted of each event.

use crate::events::{
    AnswerUpserted, BucketClosed, QuotaFinalized, QuotaReleased, QuotaReserved, SessionCompleted, SessionStarted,
    SessionTerminated,
};
use jiff::Timestamp;
use onceward::Event;
use uuid::Uuid;

/// One event, as far as it is counted.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) survey_id: Uuid,
    pub(crate) collector_id: Option<Uuid>,
    pub(crate) bucket_id: Option<Uuid>,
    pub(crate) session_id: Option<Uuid>,
    pub(crate) kind: &'static str,
    /// A reason, or a page.
    pub(crate) detail: Option<String>,
    pub(crate) page_index: Option<i32>,
    pub(crate) at: Timestamp,
}

impl Fact {
    fn new(survey_id: Uuid, session_id: Option<Uuid>, kind: &'static str, at: Timestamp) -> Self {
        Self { survey_id, collector_id: None, bucket_id: None, session_id, kind, detail: None, page_index: None, at }
    }

    fn collector(self, id: Uuid) -> Self {
        Self { collector_id: Some(id), ..self }
    }

    fn bucket(self, id: Uuid) -> Self {
        Self { bucket_id: Some(id), ..self }
    }

    fn detail(self, detail: &str) -> Self {
        Self { detail: Some(detail.to_owned()), ..self }
    }
}

/// An event that is counted.
pub(crate) trait Counted: Event {
    /// What is counted of it; it happened at `at`.
    fn fact(&self, at: Timestamp) -> Fact;
}

impl Counted for SessionStarted {
    fn fact(&self, at: Timestamp) -> Fact {
        Fact::new(self.survey_id, Some(self.session_id), "started", at).collector(self.collector_id)
    }
}

impl Counted for SessionCompleted {
    fn fact(&self, at: Timestamp) -> Fact {
        Fact::new(self.survey_id, Some(self.session_id), "completed", at).collector(self.collector_id)
    }
}

impl Counted for SessionTerminated {
    fn fact(&self, at: Timestamp) -> Fact {
        Fact::new(self.survey_id, Some(self.session_id), "terminated", at)
            .collector(self.collector_id)
            .detail(self.reason.as_str())
    }
}

impl Counted for AnswerUpserted {
    fn fact(&self, at: Timestamp) -> Fact {
        let fact = Fact::new(self.survey_id, Some(self.session_id), "page", at);
        let page_index = Some(i32::try_from(self.page_index).unwrap_or(i32::MAX));
        Fact { page_index, ..fact.collector(self.collector_id).detail(&self.page_id) }
    }
}

impl Counted for QuotaReserved {
    fn fact(&self, at: Timestamp) -> Fact {
        Fact::new(self.survey_id, Some(self.session_id), "reserved", at).bucket(self.bucket_id)
    }
}

impl Counted for QuotaReleased {
    fn fact(&self, at: Timestamp) -> Fact {
        Fact::new(self.survey_id, Some(self.session_id), "released", at).bucket(self.bucket_id)
    }
}

impl Counted for QuotaFinalized {
    fn fact(&self, at: Timestamp) -> Fact {
        Fact::new(self.survey_id, Some(self.session_id), "finalized", at).bucket(self.bucket_id)
    }
}

impl Counted for BucketClosed {
    fn fact(&self, at: Timestamp) -> Fact {
        Fact::new(self.survey_id, None, "bucket_closed", at).bucket(self.bucket_id)
    }
}
