//! What became of handing one mail for one recipient to a provider, whatever the provider speaks.
//!
//! The difference that decides about duplicates is between the outcomes in which nothing was handed over, or the
//! provider has answered, and [`SendOutcome::Unknown`], in which the provider may have the mail:
//!
//! | outcome | the provider has the mail | next |
//! | --- | --- | --- |
//! | `Accepted` | yes | wait for a bounce |
//! | `Refused` | no | never again with this recipient and message |
//! | `Deferred` | no | again later, with the same bytes |
//! | `ProviderUnavailable` | no | again later, or by another provider |
//! | `Unknown` | perhaps | never by another provider; again only with a key that the provider deduplicates by |

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The outcome for one recipient.
///
/// Texts are the provider's, bounded, without control characters, and with every address replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum SendOutcome {
    /// The provider has taken responsibility for it.
    Accepted {
        /// The provider's name for it, if the answer has one.
        provider_id: Option<String>,
    },
    /// The provider will not take this message for this recipient, now or later.
    Refused {
        /// The code of the answer.
        code: u16,
        /// The enhanced status code, such as `5.1.1`.
        enhanced: Option<String>,
        /// The answer.
        text: String,
    },
    /// The provider has not taken it, and may take it later.
    Deferred {
        /// The code of the answer.
        code: u16,
        /// The enhanced status code, such as `4.2.2`.
        enhanced: Option<String>,
        /// The answer.
        text: String,
        /// How long the provider asks to wait.
        retry_after: Option<Duration>,
    },
    /// The provider could not be asked, or takes nothing from us. Nothing was handed over.
    ProviderUnavailable {
        /// What happened.
        reason: String,
    },
    /// The mail was handed over and no answer was read: it may or may not be sent.
    Unknown {
        /// What happened.
        reason: String,
    },
}

impl SendOutcome {
    /// Returns whether the provider certainly does not have the mail, so that another attempt cannot duplicate it.
    pub fn is_not_handed_over(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Deferred { .. } | Self::ProviderUnavailable { .. })
    }
}
