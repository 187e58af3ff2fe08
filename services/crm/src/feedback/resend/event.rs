//! What an event of the provider says.

use crate::feedback::FeedbackKind;
use jiff::Timestamp;
use onceward_mail::bounce::{BounceClassifier, RecipientAction, ReportedRecipient};
use serde_json::Value;
use std::sync::LazyLock;

/// The tag with our token.
const TAG: &str = "onceward_ref";
const TEXT_MAX_CHARS: usize = 2_000;
const PROVIDER_ID_MAX_BYTES: usize = 255;

static CLASSIFIER: LazyLock<BounceClassifier> = LazyLock::new(BounceClassifier::bundled);

/// An event about a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProviderEvent {
    /// Our token, if the event carries our tag.
    pub token: Option<String>,
    /// The provider's id of the mail.
    pub provider_id: Option<String>,
    pub kind: FeedbackKind,
    pub occurred_at: Timestamp,
}

/// The result of reading an event.
pub(super) enum EventRead {
    Event(Box<ProviderEvent>),
    /// It reports nothing that we record, such as `email.sent` or `email.opened`.
    Ignored,
}

/// Reads an event. One that lies in the future happened now.
pub(super) fn read(event: &Value, now: Timestamp) -> EventRead {
    let data = &event["data"];
    let kind = match event["type"].as_str().unwrap_or_default() {
        "email.delivered" => FeedbackKind::Delivered,
        "email.delivery_delayed" => FeedbackKind::Deferred,
        "email.bounced" => bounce(&data["bounce"]),
        "email.complained" => FeedbackKind::Complained,
        _ => return EventRead::Ignored,
    };
    let reported = event["created_at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let provider_id = data["email_id"].as_str().filter(|id| (1..=PROVIDER_ID_MAX_BYTES).contains(&id.len()));
    EventRead::Event(Box::new(ProviderEvent {
        token: tag(&data["tags"]).map(str::to_owned),
        provider_id: provider_id.map(str::to_owned),
        kind,
        occurred_at: reported.unwrap_or(now).min(now),
    }))
}

/// Reads our tag, from the list in which it is sent or from the object in which events contain it.
fn tag(tags: &Value) -> Option<&str> {
    match tags {
        Value::Array(tags) => tags.iter().find(|tag| tag["name"] == TAG)?["value"].as_str(),
        tags => tags[TAG].as_str(),
    }
}

/// Classifies a bounce. The text decides first; what it leaves open, the provider's own type decides. `Permanent` is its word
/// for an address that does not exist, but it also uses it for mail that was refused for other reasons, which the text shows.
fn bounce(bounce: &Value) -> FeedbackKind {
    let text = |name: &str| bounce[name].as_str().unwrap_or_default();
    let message: String = text("message").chars().take(TEXT_MAX_CHARS).collect();
    let is_permanent = text("type").eq_ignore_ascii_case("permanent");
    let is_address = matches!(text("subType"), "NoEmail" | "Suppressed" | "OnAccountSuppressionList");
    let status = status_in(&message);
    let verdict = CLASSIFIER.classify(&ReportedRecipient {
        position: 1,
        address: None,
        action: RecipientAction::Failed,
        status: status.clone(),
        reply_code: None,
        command: None,
        diagnostic: message,
        notice: String::new(),
    });
    let is_open = verdict.class == "undetermined";
    let is_hard = is_permanent && (is_address || is_open || verdict.is_hard);
    let class = match (is_open, is_hard) {
        (false, _) => verdict.class,
        (true, true) => "address_rejected".to_owned(),
        (true, false) => verdict.class,
    };
    FeedbackKind::Bounced { is_hard, class, status }
}

/// Returns the first enhanced status code in a text, such as `5.1.1`.
fn status_in(text: &str) -> Option<String> {
    let is_status = |word: &&str| {
        let numbers: Vec<&str> = word.split('.').collect();
        let is_number = |number: &&str| (1..=3).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
        numbers.len() == 3 && matches!(numbers[0], "4" | "5") && numbers.iter().all(is_number)
    };
    let mut words = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|word| word.trim_matches('.'));
    words.find(is_status).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(bounce: Value) -> (bool, String, Option<String>) {
        match super::bounce(&bounce) {
            FeedbackKind::Bounced { is_hard, class, status } => (is_hard, class, status),
            other => panic!("a bounce is a bounce: {other:?}"),
        }
    }

    #[test]
    fn a_permanent_bounce_is_hard_unless_its_text_says_otherwise() {
        let bounce = |of: &str, sub: &str, message: &str| json!({ "type": of, "subType": sub, "message": message });
        assert!(kind(bounce("Permanent", "General", "smtp; 550 5.1.1 user unknown")).0);
        assert!(kind(bounce("Permanent", "General", "The recipient's email provider sent a hard bounce message.")).0);
        assert!(kind(bounce("Permanent", "Suppressed", "")).0);
        assert!(!kind(bounce("Permanent", "General", "552 5.2.2 mailbox full")).0);
        assert!(!kind(bounce("Transient", "General", "550 5.1.1 user unknown")).0);
        assert!(!kind(bounce("Undetermined", "Undetermined", "")).0);
        assert!(!kind(Value::Null).0);
        assert_eq!(kind(bounce("Permanent", "General", "550-5.1.1 no such user")).2.as_deref(), Some("5.1.1"));
    }

    #[test]
    fn our_tag_is_read_from_a_list_and_from_an_object() {
        assert_eq!(tag(&json!([{ "name": "a", "value": "b" }, { "name": TAG, "value": "t" }])), Some("t"));
        assert_eq!(tag(&json!({ TAG: "t" })), Some("t"));
        assert_eq!(tag(&Value::Null), None);
    }

    #[test]
    fn events_without_a_report_are_ignored_and_the_future_is_now() {
        let now = Timestamp::now();
        assert!(matches!(read(&json!({ "type": "email.opened" }), now), EventRead::Ignored));
        let event = json!({ "type": "email.delivered", "created_at": "2999-01-01T00:00:00Z", "data": {} });
        let EventRead::Event(event) = read(&event, now) else { panic!("it is a report") };
        assert_eq!((event.kind, event.occurred_at), (FeedbackKind::Delivered, now));
    }
}
