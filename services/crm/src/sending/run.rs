//! What one attempt of a message has found out so far.

use super::prepare::PreparedMail;
use crate::{
    emails::{
        RecipientState,
        store::{ProviderCall, RecipientResult, RecipientRow},
    },
    events::EmailRequested,
};
use jiff::Timestamp;
use onceward::Received;
use std::time::Duration;
use uuid::Uuid;

/// One attempt: the mail, its recipients as they were found, and the results so far.
pub(crate) struct SendRun {
    pub email_id: Uuid,
    pub handover_id: Uuid,
    /// The handover of this attempt that came to nothing, so that another provider may be asked.
    pub undone_handover: Option<Uuid>,
    pub plan: Option<SendPlan>,
    pub results: Vec<RecipientResult>,
    pub attempts: Vec<ProviderCall>,
    /// Set if a recipient must be tried again: how long the provider asks to wait.
    pub retry: Option<Option<Duration>>,
    /// Whether this is the last attempt that the retry policy allows.
    pub is_last: bool,
    /// The error code if no attempt can succeed.
    pub error_code: &'static str,
}

/// The mail as the first commit of the attempt found it.
pub(crate) struct SendPlan {
    pub mail: PreparedMail,
    pub recipients: Vec<RecipientRow>,
    pub contact_id: Option<Uuid>,
    pub loan_id: Option<String>,
    pub class: &'static str,
    pub is_at_least_once: bool,
    pub requested_at: Timestamp,
    pub attempts_before: i32,
}

impl SendRun {
    pub(crate) fn new(received: &Received<'_, EmailRequested>, max_attempts: u32) -> Self {
        Self {
            email_id: received.event.email_id.unwrap_or(received.envelope.event_id),
            handover_id: Uuid::now_v7(),
            undone_handover: None,
            plan: None,
            results: Vec::new(),
            attempts: Vec::new(),
            retry: None,
            is_last: received.attempt >= max_attempts,
            error_code: "invalid",
        }
    }

    /// Returns the next recipient to whom nothing was handed over and about whom nothing is known yet.
    pub(crate) fn next_open(&self) -> Option<&RecipientRow> {
        let recipients = self.plan.iter().flat_map(|plan| &plan.recipients);
        let is_undecided = |row: &&RecipientRow| {
            self.result_of(row.position).is_none_or(|result| result.state == RecipientState::Queued)
        };
        recipients.into_iter().filter(|row| row.state.is_open()).find(is_undecided)
    }

    fn result_of(&self, position: i16) -> Option<&RecipientResult> {
        self.results.iter().find(|result| result.position == position)
    }

    /// Adds the result of a recipient.
    pub(crate) fn settle(&mut self, position: i16, state: RecipientState, reason: impl Into<String>) {
        let reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        self.set_result(RecipientResult { position, state, provider_id: None, reply_code: None, reason });
    }

    /// Sets the result of a recipient, replacing an earlier one.
    pub(crate) fn set_result(&mut self, result: RecipientResult) {
        self.results.retain(|earlier| earlier.position != result.position);
        self.results.push(result);
    }

    /// Returns the states of all recipients, the results included.
    pub(crate) fn states(&self) -> Vec<RecipientState> {
        let recipients = self.plan.iter().flat_map(|plan| &plan.recipients);
        recipients.map(|row| self.result_of(row.position).map_or(row.state, |result| result.state)).collect()
    }

    /// Returns whether an earlier attempt had a recipient accepted, so that the mail was already reported as sent.
    pub(crate) fn was_sent_before(&self) -> bool {
        self.plan.iter().flat_map(|plan| &plan.recipients).any(|row| row.state == RecipientState::Accepted)
    }
}
