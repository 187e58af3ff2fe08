//! The class of a mail: what it is for, and therefore which rules apply to it.
//!
//! Only the class of a template decides these rules, never the caller who requests a mail.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a mail is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailClass {
    /// A notice that the law requires, such as an escrow analysis.
    Legal,
    /// Protects an account: a new password, a sign-in from a new device.
    Security,
    /// Answers something that the recipient did: a receipt, a statement.
    Transactional,
    /// Belongs to an existing relationship but answers no action: an offer of help, a survey.
    Relationship,
    /// Advertises.
    Marketing,
}

/// What happens to a mail whose outcome is unknown, for example because the connection was lost after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailDelivery {
    /// It is not sent again: the recipient may receive nothing, but never two copies.
    AtMostOnce,
    /// It is sent again: the recipient may receive two copies, but never nothing.
    AtLeastOnce,
}

/// A text that is not the name of a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such class of mail: use legal, security, transactional, relationship or marketing")]
pub struct UnknownMailClass;

impl MailClass {
    /// All classes, the most important first.
    pub const ALL: [MailClass; 5] =
        [Self::Legal, Self::Security, Self::Transactional, Self::Relationship, Self::Marketing];

    /// Returns the name that configuration, JSON and the database use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legal => "legal",
            Self::Security => "security",
            Self::Transactional => "transactional",
            Self::Relationship => "relationship",
            Self::Marketing => "marketing",
        }
    }

    /// Returns true if this mail is sent even to a recipient who unsubscribed.
    ///
    /// Transactional mail answers something that the recipient did; it has no unsubscribe link, but a person may stop it
    /// by hand, so only the two classes that must arrive return true.
    pub fn ignores_unsubscribe(self) -> bool {
        matches!(self, Self::Legal | Self::Security)
    }

    /// Returns true if the mail must have a link, and the headers, to unsubscribe.
    pub fn needs_unsubscribe_link(self) -> bool {
        matches!(self, Self::Marketing | Self::Relationship)
    }

    /// Returns what happens when the outcome of sending is unknown.
    pub fn default_delivery(self) -> MailDelivery {
        match self {
            Self::Legal | Self::Security => MailDelivery::AtLeastOnce,
            Self::Transactional | Self::Relationship | Self::Marketing => MailDelivery::AtMostOnce,
        }
    }
}

impl fmt::Display for MailClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for MailClass {
    type Err = UnknownMailClass;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|class| class.as_str() == name).ok_or(UnknownMailClass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_reads_back_from_its_name_and_from_json() {
        for class in MailClass::ALL {
            assert_eq!(class.as_str().parse(), Ok(class));
            assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
        }
        assert_eq!("Legal".parse::<MailClass>(), Err(UnknownMailClass));
    }

    #[test]
    fn only_mail_that_must_arrive_ignores_unsubscribe_and_may_arrive_twice() {
        for class in MailClass::ALL {
            let must_arrive = matches!(class, MailClass::Legal | MailClass::Security);
            assert_eq!(class.ignores_unsubscribe(), must_arrive, "{class}");
            assert_eq!(class.default_delivery() == MailDelivery::AtLeastOnce, must_arrive, "{class}");
        }
    }

    #[test]
    fn mail_that_nobody_asked_for_has_a_link_to_unsubscribe() {
        let with_link = MailClass::ALL.into_iter().filter(|class| class.needs_unsubscribe_link());
        assert_eq!(with_link.collect::<Vec<_>>(), [MailClass::Relationship, MailClass::Marketing]);
    }
}
