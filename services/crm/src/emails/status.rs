//! The state of a recipient, and the status of a mail that follows from those of its recipients.

use std::fmt;

/// The state of one recipient of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecipientState {
    Queued,
    HandedOver,
    Accepted,
    Deferred,
    Refused,
    Unknown,
    Suppressed,
    Expired,
    Failed,
}

impl RecipientState {
    const ALL: [Self; 9] = [
        Self::Queued,
        Self::HandedOver,
        Self::Accepted,
        Self::Deferred,
        Self::Refused,
        Self::Unknown,
        Self::Suppressed,
        Self::Expired,
        Self::Failed,
    ];

    /// Returns the name that the database uses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::HandedOver => "handed_over",
            Self::Accepted => "accepted",
            Self::Deferred => "deferred",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Suppressed => "suppressed",
            Self::Expired => "expired",
            Self::Failed => "failed",
        }
    }

    /// Returns the state with this name. The database allows no other names.
    pub(crate) fn from_stored(name: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == name).unwrap_or(Self::Unknown)
    }

    /// Returns whether a provider may still be called. A mail whose attempts were used up is sent again if an operator
    /// requeues its dead letter.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Deferred | Self::Failed)
    }
}

impl fmt::Display for RecipientState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the status of a mail, and whether it is final.
pub(crate) fn status_of(states: &[RecipientState]) -> (&'static str, bool) {
    let count = |wanted: RecipientState| states.iter().filter(|state| **state == wanted).count();
    let any = |wanted: RecipientState| count(wanted) > 0;
    if any(RecipientState::Queued) && count(RecipientState::Queued) == states.len() {
        return ("queued", false);
    }
    if states
        .iter()
        .any(|state| matches!(state, RecipientState::Queued | RecipientState::Deferred | RecipientState::HandedOver))
    {
        return ("sending", false);
    }
    let accepted = count(RecipientState::Accepted);
    let status = match accepted {
        _ if accepted == states.len() && accepted > 0 => "sent",
        0 if any(RecipientState::Unknown) => "unknown",
        0 if any(RecipientState::Refused) || any(RecipientState::Failed) => "failed",
        0 if any(RecipientState::Expired) => "expired",
        0 => "suppressed",
        _ => "partly_sent",
    };
    (status, true)
}

#[cfg(test)]
mod tests {
    use super::{RecipientState as S, *};

    #[test]
    fn the_status_of_a_mail_follows_from_its_recipients() {
        for (states, status, is_final) in [
            (&[S::Queued, S::Queued][..], "queued", false),
            (&[S::Accepted, S::Queued], "sending", false),
            (&[S::HandedOver], "sending", false),
            (&[S::Deferred], "sending", false),
            (&[S::Accepted, S::Accepted], "sent", true),
            (&[S::Accepted, S::Refused], "partly_sent", true),
            (&[S::Accepted, S::Unknown], "partly_sent", true),
            (&[S::Unknown, S::Refused], "unknown", true),
            (&[S::Refused, S::Suppressed], "failed", true),
            (&[S::Failed], "failed", true),
            (&[S::Expired, S::Suppressed], "expired", true),
            (&[S::Suppressed], "suppressed", true),
        ] {
            assert_eq!(status_of(states), (status, is_final), "{states:?}");
        }
    }

    #[test]
    fn every_state_is_read_as_it_was_written() {
        assert!(S::ALL.into_iter().all(|state| S::from_stored(state.as_str()) == state));
    }
}
