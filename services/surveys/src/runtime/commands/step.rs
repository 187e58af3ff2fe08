//! A step of a session: what the respondent requests, what is decided, and the events it publishes.

use super::{
    PageSubmitRequest,
    finish::{complete, terminate},
    submit::{digest, submit},
};
use crate::{
    SurveyError,
    events::{AnswerUpserted, SessionCompleted, SessionTerminated, TerminationReason, publish},
    quota::{self, PlaceChanges, StepPlaces},
    runtime::{
        SurveyContext,
        store::{SessionStatus, StepWrite, SubmittedPage, SurveySession},
        view,
    },
};
use onceward::{PublishError, Tx};
use serde_json::Value;

/// A respondent's request to change their session.
pub(in crate::runtime) enum SessionStep {
    Submit { page: PageSubmitRequest, digest: [u8; 32] },
    Complete,
    Terminate(TerminationReason),
}

/// The result of deciding a step.
pub(in crate::runtime) enum StepOutcome {
    /// The request was repeated: it gets this response, and nothing is written.
    Replay(Value),
    /// The session changes.
    Apply(Box<StepDecision>),
}

/// The new state of a session, unless a bucket is full.
pub(in crate::runtime) struct StepDecision {
    pub session: SurveySession,
    pub status: SessionStatus,
    pub changes: PlaceChanges,
    /// The submitted page, with its index in the definition.
    pub submitted: Option<(SubmittedPage, usize)>,
    /// The next page and its index, or only the index after the last page; `None` if the session ends.
    pub next: Option<(Option<String>, usize)>,
    /// The respondent's current page, for the event that the session has ended.
    pub page_id: Option<String>,
    /// The number of pages on the path so far.
    pub pages: usize,
    /// The response to the respondent.
    pub response: Value,
}

impl SessionStep {
    /// Creates a step that submits a page. Fails if the answers cannot be hashed.
    pub(in crate::runtime) fn submit(page: PageSubmitRequest) -> Result<Self, SurveyError> {
        let digest = digest(&page.answers)?;
        Ok(Self::Submit { page, digest })
    }

    /// Returns the id of the page whose last submit must be read, or an empty string.
    pub(in crate::runtime) fn page_id(&self) -> &str {
        match self {
            Self::Submit { page, .. } => &page.page_id,
            Self::Complete | Self::Terminate(_) => "",
        }
    }

    /// Decides the step for a locked session. Writes nothing, and reads only what is not cached.
    pub(in crate::runtime) async fn decide(
        &self,
        tx: &Tx,
        context: &SurveyContext,
        session: SurveySession,
    ) -> Result<StepOutcome, SurveyError> {
        match self {
            Self::Submit { page, digest } => submit(tx, context, session, page, *digest).await,
            Self::Complete => complete(tx, context, session).await,
            Self::Terminate(reason) => terminate(tx, context, session, *reason).await,
        }
    }
}

impl StepDecision {
    /// Returns the part of the decision that is written.
    pub(in crate::runtime) fn to_write(&self) -> StepWrite<'_> {
        StepWrite {
            session_id: self.session.session_id,
            status: self.status,
            changes: &self.changes,
            submitted: self.submitted.as_ref().map(|(page, _)| page),
        }
    }

    /// Publishes the events with the commit of `tx`, and returns the response to the respondent.
    pub(in crate::runtime) async fn publish(self, tx: &mut Tx, places: &StepPlaces) -> Result<Value, PublishError> {
        let Self { session, status, submitted, next, page_id, pages, response, .. } = self;
        let SurveySession { session_id, survey_id, collector_id, version, duration_ms, .. } = session;
        if let Some((SubmittedPage { page_id, answers, .. }, page)) = submitted {
            let (page_index, question_count) = (to_u32(page), to_u32(answers.len()));
            let next = next.filter(|_| !places.full);
            let next_page_index = next.as_ref().map(|(_, index)| to_u32(*index));
            let next_page_id = next.and_then(|(id, _)| id);
            let event = AnswerUpserted {
                session_id,
                survey_id,
                collector_id,
                page_id,
                page_index,
                question_count,
                next_page_id,
                next_page_index,
            };
            publish(tx, &event).await?;
        }
        quota::publish_changes(tx, survey_id, session_id, &places.changes).await?;
        let status = if places.full { view::QUOTA_FULL } else { status };
        match status {
            SessionStatus::Active => {}
            SessionStatus::Terminated(reason) => {
                let event = SessionTerminated { session_id, survey_id, collector_id, version, reason, page_id };
                publish(tx, &event).await?;
            }
            SessionStatus::Completed => {
                let (pages, duration_ms) = (to_u32(pages), duration_ms.max(0));
                let event = SessionCompleted { session_id, survey_id, collector_id, version, pages, duration_ms };
                publish(tx, &event).await?;
            }
        }
        Ok(if places.full { view::ending(view::QUOTA_FULL) } else { response })
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
