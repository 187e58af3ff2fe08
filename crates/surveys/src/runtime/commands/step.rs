//! A step of a session: what is asked, what it comes to, and what is told of it.

use super::{
    PageSubmit,
    complete::complete,
    submit::{digest, submit},
    terminate::terminate,
};
use crate::{
    SurveyError,
    events::{AnswerUpserted, SessionCompleted, SessionTerminated, TerminationReason, publish},
    quota::{self, Moves, store::Places},
    runtime::{
        Desk,
        store::{Session, Status, Submit, Written},
        view,
    },
};
use onceward::{PublishError, Tx};
use serde_json::Value;

/// What a respondent asks for.
pub(in crate::runtime) enum Step {
    Submit { given: PageSubmit, digest: [u8; 32] },
    Complete,
    Terminate(TerminationReason),
}

/// What a step comes to.
pub(in crate::runtime) enum Verdict {
    /// This is the answer, and nothing is written.
    Known(Value),
    Decided(Box<Decision>),
}

/// What is to become of a session, unless a bucket is full.
pub(in crate::runtime) struct Decision {
    pub session: Session,
    pub status: Status,
    pub moves: Moves,
    /// The page that was submitted, with its place in the definition.
    pub submit: Option<(Submit, usize)>,
    /// Where the respondent is, for those who hear that the session has ended.
    pub page_id: Option<String>,
    /// How many pages the way has so far.
    pub pages: usize,
    /// What the respondent hears.
    pub answer: Value,
}

impl Step {
    /// The submit of a page.
    pub(in crate::runtime) fn submit(given: PageSubmit) -> Result<Self, SurveyError> {
        let digest = digest(&given.answers)?;
        Ok(Self::Submit { given, digest })
    }

    /// The page whose last submit is to be known.
    pub(in crate::runtime) fn page_id(&self) -> &str {
        match self {
            Self::Submit { given, .. } => &given.page_id,
            Self::Complete | Self::Terminate(_) => "",
        }
    }

    /// Decides for a session that is locked. Writes nothing, and reads only what is not in memory yet.
    pub(in crate::runtime) async fn decide(
        &self,
        tx: &Tx,
        desk: &Desk,
        session: Session,
    ) -> Result<Verdict, SurveyError> {
        match self {
            Self::Submit { given, digest } => submit(tx, desk, session, given, *digest).await,
            Self::Complete => complete(tx, desk, session).await,
            Self::Terminate(reason) => terminate(tx, desk, session, *reason).await,
        }
    }
}

impl Decision {
    /// As it is written.
    pub(in crate::runtime) fn written(&self) -> Written<'_> {
        Written {
            session_id: self.session.session_id,
            status: self.status,
            moves: &self.moves,
            submit: self.submit.as_ref().map(|(submit, _)| submit),
        }
    }

    /// Tells what happened with the commit of `tx`, and gives what the respondent hears after it.
    pub(in crate::runtime) async fn tell(self, tx: &mut Tx, places: &Places) -> Result<Value, PublishError> {
        let Self { session, status, submit, page_id, pages, answer, .. } = self;
        let Session { session_id, survey_id, collector_id, version, duration_ms, .. } = session;
        if let Some((Submit { page_id, answers, .. }, page)) = submit {
            let (page_index, question_count) = (small(page), small(answers.len()));
            let told = AnswerUpserted { session_id, survey_id, collector_id, page_id, page_index, question_count };
            publish(tx, &told).await?;
        }
        quota::tell(tx, survey_id, session_id, &places.moved).await?;
        let status = if places.full { view::FULL } else { status };
        match status {
            Status::Active => {}
            Status::Terminated(reason) => {
                let told = SessionTerminated { session_id, survey_id, collector_id, version, reason, page_id };
                publish(tx, &told).await?;
            }
            Status::Completed => {
                let (pages, duration_ms) = (small(pages), duration_ms.max(0));
                let told = SessionCompleted { session_id, survey_id, collector_id, version, pages, duration_ms };
                publish(tx, &told).await?;
            }
        }
        Ok(if places.full { view::ending(view::FULL) } else { answer })
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
