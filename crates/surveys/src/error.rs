//! Why surveys do not do something: facts about surveys and sessions, and the machinery below them.

use crate::{
    definition::{AnswerFault, Fault},
    token::TokenError,
};
use onceward::{DbError, Failure, Problem, ProblemCode, PublishError, web::problem::codes};
use onceward_audit::AuditError;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// There is no such thing.
    #[error("there is no such {0}")]
    Missing(&'static str),
    /// The survey's or collector's state does not allow it.
    #[error("{0}")]
    Refused(String),
    /// Something is wrong with a definition or a quota.
    #[error("{} faults, the first at {}", .0.len(), .0.first().map_or("", |fault| &fault.place))]
    Faults(Vec<Fault>),
    /// The collector lets nobody in.
    #[error("{0}")]
    NotOpen(&'static str),
    /// The invite began a session, and that has ended.
    #[error("this invite has been used: each is good for one session")]
    InviteUsed,
    /// The session has ended.
    #[error("the session has ended: it is {0}")]
    Ended(String),
    /// The page does not come next, nor did it come before.
    #[error("page {given:?} is not on this respondent's way; {due}")]
    NotDue {
        /// Which page was submitted.
        given: String,
        /// What is due.
        due: String,
    },
    /// Something is left to answer.
    #[error("the session cannot be completed yet: page {0:?} comes next")]
    Unanswered(String),
    /// The attempt stands for other answers.
    #[error("{0}")]
    Attempt(&'static str),
    /// Something is wrong with the answers.
    #[error("{} answers are not valid", .0.len())]
    Answers(Vec<AnswerFault>),
    /// Too many requests.
    #[error("too many requests from this address")]
    TooMany {
        /// When to try again.
        retry_after_s: u32,
    },
    /// As many steps as may wait do.
    #[error("too many respondents of this tenant wait already")]
    Crowded,
    /// The respondent's token is refused.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Something that we stored cannot be read.
    #[error("{0}")]
    Corrupt(String),
    /// The audit trail cannot take the entry.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A message cannot be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The database says no.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<SurveyError> for Failure {
    fn from(error: SurveyError) -> Self {
        match error {
            SurveyError::Db(error) => error.into(),
            SurveyError::Publish(error) => error.into(),
            other => Self::permanent(other),
        }
    }
}

impl From<SurveyError> for Problem {
    fn from(error: SurveyError) -> Self {
        let text = error.to_string();
        match error {
            SurveyError::Db(error) => error.into(),
            SurveyError::Publish(error) => error.into(),
            SurveyError::Audit(error) => Self::internal(error),
            SurveyError::Corrupt(what) => Self::internal(what),
            SurveyError::Token(TokenError::NoSecret) => Self::internal(TokenError::NoSecret),
            SurveyError::Token(_) => Self::new(codes::UNAUTHORIZED).detail(text),
            SurveyError::Missing(_) => Self::new(codes::NOT_FOUND).detail(text),
            SurveyError::Refused(_) => Self::new(SURVEY_REFUSES).detail(text),
            SurveyError::NotOpen(_) => Self::new(COLLECTOR_NOT_OPEN).detail(text),
            SurveyError::InviteUsed => Self::new(INVITE_USED).detail(text),
            SurveyError::Ended(_) => Self::new(SESSION_ENDED).detail(text),
            SurveyError::NotDue { .. } | SurveyError::Unanswered(_) => Self::new(PAGE_NOT_DUE).detail(text),
            SurveyError::Attempt(_) => Self::new(ATTEMPT_CONFLICT).detail(text),
            SurveyError::TooMany { retry_after_s } => {
                Self::new(TOO_MANY_REQUESTS).detail(text).retry_after_s(retry_after_s)
            }
            SurveyError::Crowded => Self::new(codes::OVERLOADED).detail(text).retry_after_s(1),
            SurveyError::Faults(faults) => {
                let problem =
                    Self::new(codes::VALIDATION_FAILED).detail("Something is wrong; `errors` says what and where.");
                faults.into_iter().fold(problem, |problem, fault| problem.error(fault.place, fault.message))
            }
            SurveyError::Answers(faults) => {
                let problem = Self::new(codes::VALIDATION_FAILED).detail("The page was not taken; `errors` says why.");
                faults.into_iter().fold(problem, |problem, fault| {
                    problem.error(format!("/answers/{}", fault.question), fault.message)
                })
            }
        }
    }
}

/// The survey's state does not allow it.
pub const SURVEY_REFUSES: ProblemCode = ProblemCode {
    code: "survey-refuses",
    status: 409,
    title: "The survey's state does not allow this",
    page: include_str!("../../../docs/problems/survey-refuses.md"),
};

/// The collector lets nobody in.
pub const COLLECTOR_NOT_OPEN: ProblemCode = ProblemCode {
    code: "collector-not-open",
    status: 409,
    title: "The survey takes no new respondents here",
    page: include_str!("../../../docs/problems/collector-not-open.md"),
};

/// The invite has been used.
pub const INVITE_USED: ProblemCode = ProblemCode {
    code: "invite-used",
    status: 409,
    title: "The invite has been used",
    page: include_str!("../../../docs/problems/invite-used.md"),
};

/// The session has ended.
pub const SESSION_ENDED: ProblemCode = ProblemCode {
    code: "session-ended",
    status: 409,
    title: "The session has ended",
    page: include_str!("../../../docs/problems/session-ended.md"),
};

/// Another page is due.
pub const PAGE_NOT_DUE: ProblemCode = ProblemCode {
    code: "page-not-due",
    status: 409,
    title: "Another page is due",
    page: include_str!("../../../docs/problems/page-not-due.md"),
};

/// The attempt stands for other answers.
pub const ATTEMPT_CONFLICT: ProblemCode = ProblemCode {
    code: "attempt-conflict",
    status: 409,
    title: "The attempt stands for other answers",
    page: include_str!("../../../docs/problems/attempt-conflict.md"),
};

/// Too many requests.
pub const TOO_MANY_REQUESTS: ProblemCode = ProblemCode {
    code: "too-many-requests",
    status: 429,
    title: "Too many requests",
    page: include_str!("../../../docs/problems/too-many-requests.md"),
};

/// Every kind above.
pub(crate) const PROBLEMS: &[ProblemCode] = &[
    SURVEY_REFUSES,
    COLLECTOR_NOT_OPEN,
    INVITE_USED,
    SESSION_ENDED,
    PAGE_NOT_DUE,
    ATTEMPT_CONFLICT,
    TOO_MANY_REQUESTS,
];
