//! The steps of a session, one verb a file: lock, decide, write, tell.

mod complete;
mod expire;
mod start;
mod submit;
mod terminate;

pub(super) use complete::complete;
pub(super) use expire::expire;
pub(super) use start::{Begun, start, start_digest};
pub(super) use submit::{PageSubmit, submit};
pub(super) use terminate::terminate;

use super::store::Session;
use crate::{
    SurveyError,
    events::{SessionTerminated, TerminationReason, publish},
};
use onceward::Tx;

async fn tell_terminated(
    tx: &mut Tx,
    session: &Session,
    reason: TerminationReason,
    page_id: Option<String>,
) -> Result<(), SurveyError> {
    let &Session { session_id, survey_id, collector_id, version, .. } = session;
    publish(tx, &SessionTerminated { session_id, survey_id, collector_id, version, reason, page_id }).await?;
    Ok(())
}
