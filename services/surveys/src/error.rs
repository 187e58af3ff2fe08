//! The errors of the service: facts about surveys and sessions, and failures of the components below.

use crate::{
    definition::{AnswerFault, DefinitionFault, escape_pointer},
    token::TokenError,
};
use onceward::{DbError, Failure, Problem, ProblemCode, PublishError, web::problem::codes};
use onceward_audit::AuditError;
use uuid::Uuid;

/// Why a survey operation failed. The text of an error that a caller causes is the `detail` of the HTTP problem.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The named object does not exist.
    #[error("The {0} does not exist.")]
    NotFound(&'static str),
    /// The survey's or collector's state does not allow the operation.
    #[error("{0}")]
    NotAllowed(String),
    /// A definition or a quota is invalid.
    #[error("The definition has {} faults; the first is at {:?}.", .0.len(), .0.first().map_or("", |fault| &fault.pointer))]
    InvalidDefinition(Vec<DefinitionFault>),
    /// A version was published under less strict rules and cannot be shown under today's.
    #[error(
        "Version {version} of survey {survey_id} was published under older rules and cannot be shown ({}). Correct its \
         definition, save it and publish it again.",
        .faults.first().map_or_else(String::new, |fault| format!("{} {}", fault.pointer, fault.message))
    )]
    OutdatedDefinition {
        /// The survey.
        survey_id: Uuid,
        /// The version.
        version: i32,
        /// The faults.
        faults: Vec<DefinitionFault>,
    },
    /// The collector does not admit respondents.
    #[error("{0}")]
    CollectorNotOpen(&'static str),
    /// The invite was used to start a session, which has ended.
    #[error("This invite was already used. Each invite is valid for one session.")]
    InviteUsed,
    /// The key for starting a session by a link could be guessed.
    #[error(
        "On a link, the Idempotency-Key must be random. Send a UUID, or at least 22 characters of A-Z, a-z, 0-9, '-' and '_'."
    )]
    GuessableStartKey,
    /// The key started a session that has answers, so its token is not issued again.
    #[error(
        "This Idempotency-Key started a session that already has answers. Continue with the token from the first response."
    )]
    SessionAlreadyStarted,
    /// A form was submitted from a page of another site.
    #[error("The form was submitted from another site.")]
    CrossSite,
    /// The form of a start page is not the one that was issued to this browser.
    #[error("The start page has expired or was not opened in this browser.")]
    InvalidStartPage,
    /// The session has ended.
    #[error("The session has ended: it is {0}.")]
    SessionEnded(String),
    /// The page is neither next nor an earlier one on the respondent's path.
    #[error("Page {submitted:?} is not on this respondent's path. {due}")]
    PageNotDue {
        /// The submitted page.
        submitted: String,
        /// What is due instead, as a sentence.
        due: String,
    },
    /// Some pages are still to be answered.
    #[error("The session cannot be completed yet: page {0:?} is next.")]
    PageUnanswered(String),
    /// The attempt number was already used for other answers.
    #[error("{0}")]
    AttemptConflict(&'static str),
    /// Some answers are invalid.
    #[error("{} answers are not valid.", .0.len())]
    InvalidAnswers(Vec<AnswerFault>),
    /// The sender exceeds the rate limit.
    #[error("This address sends too many requests. Try again in {retry_after_s} seconds.")]
    RateLimited {
        /// The number of seconds to wait before retrying.
        retry_after_s: u32,
    },
    /// The tenant's step queue is full.
    #[error("Too many requests of this tenant's respondents are waiting. Try again in {RETRY_STEP_AFTER_S} second.")]
    TooManyWaitingSteps,
    /// The respondent's token is rejected.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Stored data cannot be read.
    #[error("{0}")]
    CorruptData(String),
    /// The audit entry cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A message cannot be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The database failed or rejected the operation.
    #[error(transparent)]
    Db(#[from] DbError),
}

/// How long a client waits before it repeats a step that found the queue full.
const RETRY_STEP_AFTER_S: u32 = 1;

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
            SurveyError::CorruptData(reason) => Self::internal(reason),
            SurveyError::Token(TokenError::NoSecret) => Self::internal(TokenError::NoSecret),
            SurveyError::Token(_) => Self::new(codes::UNAUTHORIZED).detail(text),
            SurveyError::NotFound(_) => Self::new(codes::NOT_FOUND).detail(text),
            SurveyError::NotAllowed(_) | SurveyError::OutdatedDefinition { .. } => {
                Self::new(SURVEY_REFUSES).detail(text)
            }
            SurveyError::CollectorNotOpen(_) => Self::new(COLLECTOR_NOT_OPEN).detail(text),
            SurveyError::InviteUsed => Self::new(INVITE_USED).detail(text),
            SurveyError::GuessableStartKey => Self::new(START_KEY_GUESSABLE).detail(text),
            SurveyError::SessionAlreadyStarted => Self::new(SESSION_BEGUN).detail(text),
            SurveyError::CrossSite | SurveyError::InvalidStartPage => Self::new(codes::FORBIDDEN).detail(text),
            SurveyError::SessionEnded(_) => Self::new(SESSION_ENDED).detail(text),
            SurveyError::PageNotDue { .. } | SurveyError::PageUnanswered(_) => Self::new(PAGE_NOT_DUE).detail(text),
            SurveyError::AttemptConflict(_) => Self::new(ATTEMPT_CONFLICT).detail(text),
            SurveyError::RateLimited { retry_after_s } => {
                Self::new(TOO_MANY_REQUESTS).detail(text).retry_after_s(retry_after_s)
            }
            SurveyError::TooManyWaitingSteps => {
                Self::new(codes::OVERLOADED).detail(text).retry_after_s(RETRY_STEP_AFTER_S)
            }
            SurveyError::InvalidDefinition(faults) => {
                let problem = Self::new(codes::VALIDATION_FAILED)
                    .detail("The request is not valid. `errors` lists each fault with its path.");
                faults.into_iter().fold(problem, |problem, fault| problem.error(fault.pointer, fault.message))
            }
            SurveyError::InvalidAnswers(faults) => {
                let problem = Self::new(codes::VALIDATION_FAILED)
                    .detail("The page was not accepted. `errors` lists each invalid answer.");
                faults.into_iter().fold(problem, |problem, fault| {
                    let question = match fault.question.as_str() {
                        "" => String::new(),
                        id => format!("/{}", escape_pointer(id)),
                    };
                    problem.error(format!("/answers{question}"), fault.message)
                })
            }
        }
    }
}

/// The survey's state does not allow the operation.
pub const SURVEY_REFUSES: ProblemCode = ProblemCode {
    code: "survey-refuses",
    status: 409,
    title: "The survey's state does not allow this",
    page: include_str!("../problems/survey-refuses.md"),
};

/// The collector does not admit respondents.
pub const COLLECTOR_NOT_OPEN: ProblemCode = ProblemCode {
    code: "collector-not-open",
    status: 409,
    title: "The collector does not accept new respondents",
    page: include_str!("../problems/collector-not-open.md"),
};

/// The invite has been used.
pub const INVITE_USED: ProblemCode = ProblemCode {
    code: "invite-used",
    status: 409,
    title: "The invite was already used",
    page: include_str!("../problems/invite-used.md"),
};

/// The key of a start could be guessed.
pub const START_KEY_GUESSABLE: ProblemCode = ProblemCode {
    code: "start-key-guessable",
    status: 400,
    title: "The Idempotency-Key of the start can be guessed",
    page: include_str!("../problems/start-key-guessable.md"),
};

/// The key started a session that has answers.
pub const SESSION_BEGUN: ProblemCode = ProblemCode {
    code: "session-begun",
    status: 409,
    title: "A session was already started with this key",
    page: include_str!("../problems/session-begun.md"),
};

/// The session has ended.
pub const SESSION_ENDED: ProblemCode = ProblemCode {
    code: "session-ended",
    status: 409,
    title: "The session has ended",
    page: include_str!("../problems/session-ended.md"),
};

/// Another page is due.
pub const PAGE_NOT_DUE: ProblemCode = ProblemCode {
    code: "page-not-due",
    status: 409,
    title: "Another page is due",
    page: include_str!("../problems/page-not-due.md"),
};

/// The attempt number was already used for other answers.
pub const ATTEMPT_CONFLICT: ProblemCode = ProblemCode {
    code: "attempt-conflict",
    status: 409,
    title: "The attempt was already used with different answers",
    page: include_str!("../problems/attempt-conflict.md"),
};

/// Too many requests.
pub const TOO_MANY_REQUESTS: ProblemCode = ProblemCode {
    code: "too-many-requests",
    status: 429,
    title: "Too many requests",
    page: include_str!("../problems/too-many-requests.md"),
};

/// All problem codes of the service.
pub(crate) const PROBLEMS: &[ProblemCode] = &[
    SURVEY_REFUSES,
    COLLECTOR_NOT_OPEN,
    INVITE_USED,
    START_KEY_GUESSABLE,
    SESSION_BEGUN,
    SESSION_ENDED,
    PAGE_NOT_DUE,
    ATTEMPT_CONFLICT,
    TOO_MANY_REQUESTS,
];
