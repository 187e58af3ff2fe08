//! The SQL of sessions and of the quota gate. The functions are defined in `migrations/0003_steps.sql`.

mod gate;
mod session;

pub(crate) use gate::{StepWrite, SubmittedPage, find_buckets, write_steps};
pub(crate) use session::{
    Admission, AdmissionRefusal, ExpiredPlace, ExpiryChange, LastSubmit, SessionLookup, SessionStatus, SurveySession,
    admit, collector_survey_title, expire, find_published, lock_sessions, read_session, survey_title,
};
