//! The rules by which a recipient is denied.
//!
//! | fact | stops |
//! | --- | --- |
//! | the contact was erased | everything |
//! | hard bounce, soft bounces within their time | everything to that address |
//! | complaint | everything but legal mail |
//! | manual suppression, unsubscription, do-not-contact | its class, or all classes, but never legal and security mail |
//! | the class was stopped for the tenant | its class |
//! | a rule of the contact's jurisdiction | its class: always, or without consent |

use onceward_mail::class::MailClass;
use std::fmt;

/// Why a recipient may not be written to. The text names no person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    Erased,
    HardBounce,
    SoftBounces,
    Complaint,
    Unsubscribed,
    ManualSuppression,
    DoNotContact { reason: String },
    ClassStopped { reason: String },
    ForbiddenByJurisdiction { jurisdiction: String, reason: String },
    ConsentMissing { jurisdiction: String, reason: String },
}

/// What is known about one recipient. Expired and lifted entries are not part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecipientFacts {
    /// Whether the contact was erased.
    pub is_erased: bool,
    /// Suppressions in force: the class or `*`, and the reason.
    pub suppressions: Vec<(String, String)>,
    /// Do-not-contact entries in force: the class or `*`, and the reason.
    pub do_not_contact: Vec<(String, String)>,
    /// Why the class was stopped for the tenant, if it was.
    pub class_stop: Option<String>,
    /// The rule of the most specific jurisdiction for this class: jurisdiction, demand and reason.
    pub rule: Option<(String, String, String)>,
    /// Whether the latest consent record for this class gives consent.
    pub has_consent: bool,
}

impl Denial {
    /// Decides whether a mail of this class may be sent to the recipient. Returns the first reason against it.
    pub(crate) fn decide(class: MailClass, facts: &RecipientFacts) -> Option<Self> {
        if facts.is_erased {
            return Some(Self::Erased);
        }
        let by_suppression = facts.suppressions.iter().find_map(|(scope, reason)| suppressed(class, scope, reason));
        by_suppression.or_else(|| by_do_not_contact(class, facts)).or_else(|| by_rule(class, facts))
    }

    /// Returns the name of the reason, for audit entries, events and metrics.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Erased => "erased",
            Self::HardBounce => "hard_bounce",
            Self::SoftBounces => "soft_bounce",
            Self::Complaint => "complaint",
            Self::Unsubscribed => "unsubscribed",
            Self::ManualSuppression => "manual",
            Self::DoNotContact { .. } => "do_not_contact",
            Self::ClassStopped { .. } => "class_stopped",
            Self::ForbiddenByJurisdiction { .. } => "jurisdiction",
            Self::ConsentMissing { .. } => "consent_missing",
        }
    }
}

fn suppressed(class: MailClass, scope: &str, reason: &str) -> Option<Denial> {
    let covers = scope == "*" || scope == class.as_str();
    let denial = match reason {
        "hard_bounce" => Denial::HardBounce,
        "soft_bounce" => Denial::SoftBounces,
        "complaint" if class != MailClass::Legal => Denial::Complaint,
        "unsubscribed" if !class.ignores_unsubscribe() => Denial::Unsubscribed,
        "manual" if !class.ignores_unsubscribe() => Denial::ManualSuppression,
        _ => return None,
    };
    covers.then_some(denial)
}

fn by_do_not_contact(class: MailClass, facts: &RecipientFacts) -> Option<Denial> {
    if class.ignores_unsubscribe() {
        return None;
    }
    let entry = facts.do_not_contact.iter().find(|(scope, _)| scope == "*" || scope == class.as_str())?;
    Some(Denial::DoNotContact { reason: entry.1.clone() })
}

fn by_rule(class: MailClass, facts: &RecipientFacts) -> Option<Denial> {
    if let (Some(reason), false) = (&facts.class_stop, class.ignores_unsubscribe()) {
        return Some(Denial::ClassStopped { reason: reason.clone() });
    }
    let (jurisdiction, demand, reason) = facts.rule.clone()?;
    match demand.as_str() {
        "forbidden" => Some(Denial::ForbiddenByJurisdiction { jurisdiction, reason }),
        "consent" if !facts.has_consent => Some(Denial::ConsentMissing { jurisdiction, reason }),
        _ => None,
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Erased => f.write_str("the contact was erased"),
            Self::HardBounce => f.write_str("mail to this address bounced; verify the address first"),
            Self::SoftBounces => f.write_str("mail to this address was returned several times; try again later"),
            Self::Complaint => f.write_str("the recipient reported mail to this address as spam"),
            Self::Unsubscribed => f.write_str("the recipient unsubscribed from this class of mail"),
            Self::ManualSuppression => f.write_str("the address was suppressed by hand"),
            Self::DoNotContact { reason } => write!(f, "the contact must not be contacted: {reason}"),
            Self::ClassStopped { reason } => write!(f, "this class of mail was stopped: {reason}"),
            Self::ForbiddenByJurisdiction { jurisdiction, reason } => {
                write!(f, "a rule of {jurisdiction} forbids this class of mail: {reason}")
            }
            Self::ConsentMissing { jurisdiction, reason } => {
                write!(f, "a rule of {jurisdiction} demands consent, and none is recorded: {reason}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(facts: &RecipientFacts) -> Vec<&'static str> {
        let classes = MailClass::ALL.into_iter().filter(|class| Denial::decide(*class, facts).is_some());
        classes.map(MailClass::as_str).collect()
    }

    fn suppressed_by(scope: &str, reason: &str) -> RecipientFacts {
        RecipientFacts { suppressions: vec![(scope.to_owned(), reason.to_owned())], ..RecipientFacts::default() }
    }

    const ALL: [&str; 5] = ["legal", "security", "transactional", "relationship", "marketing"];

    #[test]
    fn a_bounce_stops_everything_and_a_complaint_everything_but_legal_mail() {
        assert_eq!(denied(&RecipientFacts::default()), [""; 0]);
        assert_eq!(denied(&suppressed_by("*", "hard_bounce")), ALL);
        assert_eq!(denied(&suppressed_by("*", "soft_bounce")), ALL);
        assert_eq!(denied(&suppressed_by("*", "complaint")), &ALL[1..]);
        assert_eq!(denied(&RecipientFacts { is_erased: true, ..RecipientFacts::default() }), ALL);
    }

    #[test]
    fn unsubscribing_stops_its_class_and_never_legal_or_security_mail() {
        assert_eq!(denied(&suppressed_by("marketing", "unsubscribed")), ["marketing"]);
        assert_eq!(denied(&suppressed_by("*", "unsubscribed")), &ALL[2..]);
        assert_eq!(denied(&suppressed_by("legal", "unsubscribed")), [""; 0]);
        let entry = |scope: &str| RecipientFacts {
            do_not_contact: vec![(scope.to_owned(), "asked by phone".to_owned())],
            ..RecipientFacts::default()
        };
        assert_eq!(denied(&entry("*")), &ALL[2..]);
        assert_eq!(denied(&entry("relationship")), ["relationship"]);
        assert_eq!(denied(&entry("security")), [""; 0]);
    }

    #[test]
    fn a_jurisdiction_forbids_a_class_or_demands_consent() {
        let rule = |demand: &str, has_consent| RecipientFacts {
            rule: Some(("DE".to_owned(), demand.to_owned(), "UWG §7".to_owned())),
            has_consent,
            ..RecipientFacts::default()
        };
        let code = |facts: &RecipientFacts| Denial::decide(MailClass::Marketing, facts).map(|denial| denial.code());
        assert_eq!(code(&rule("forbidden", true)), Some("jurisdiction"));
        assert_eq!(code(&rule("consent", false)), Some("consent_missing"));
        assert_eq!(code(&rule("consent", true)), None);
        assert_eq!(code(&rule("allowed", false)), None);
    }
}
