//! Notifications of Amazon SES, which arrive as JSON: in a mail, or in the body of a webhook.

use serde_json::Value;

use super::codes::{reply_code_in, status_in};
use super::report::{RecipientAction, ReportedRecipient};

const MAX_RECIPIENTS: usize = 100;

/// Returns the recipients of a notification, if the text is one, and the identifier of the mail.
pub(super) fn read(text: &str) -> Option<Vec<ReportedRecipient>> {
    let begin = text.trim_start();
    if !begin.starts_with('{') {
        return None;
    }
    // Some mail systems break long lines with `!` and continue them with a space.
    let joined = begin.replace("!\n ", "");
    let first = serde_json::Deserializer::from_str(&joined).into_iter::<Value>().next()?.ok()?;
    // A subscription by HTTP wraps the notification in another one, as a string.
    let inner = first.get("Message").and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
    let notification = inner.unwrap_or(first);
    let kind = notification.get("notificationType").or(notification.get("eventType"))?.as_str()?;
    let (list, action) = match kind {
        "Bounce" => (notification.pointer("/bounce/bouncedRecipients")?, RecipientAction::Failed),
        "Complaint" => (notification.pointer("/complaint/complainedRecipients")?, RecipientAction::Complained),
        "Delivery" => (notification.pointer("/delivery/recipients")?, RecipientAction::Delivered),
        "DeliveryDelay" => (notification.pointer("/deliveryDelay/delayedRecipients")?, RecipientAction::Delayed),
        _ => return None,
    };
    let answer = notification.pointer("/delivery/smtpResponse").and_then(Value::as_str).unwrap_or_default();
    let recipients = list.as_array()?.iter().take(MAX_RECIPIENTS).enumerate();
    Some(recipients.map(|(index, recipient)| reported(index + 1, recipient, action, answer)).collect())
}

fn reported(position: usize, recipient: &Value, action: RecipientAction, answer: &str) -> ReportedRecipient {
    let text = |name: &str| recipient.get(name).and_then(Value::as_str);
    let address = text("emailAddress").or(recipient.as_str());
    let diagnostic = text("diagnosticCode").unwrap_or(answer);
    ReportedRecipient {
        position,
        address: address.map(str::to_owned),
        action: text("action").map_or(action, RecipientAction::read),
        status: text("status").and_then(status_in).or_else(|| status_in(diagnostic)),
        reply_code: reply_code_in(diagnostic),
        command: None,
        diagnostic: diagnostic.to_owned(),
        notice: String::new(),
    }
}
