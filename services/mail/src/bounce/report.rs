//! Reads a returned mail: what kind of report it is, and what it says about each recipient.

use serde::Serialize;

use super::bytes::{HeaderFields, LeafPart, leaves, normalised, split_header};
use super::codes::{addresses_in, command_in};
use super::phrases::{AUTO_REPLY_SUBJECT, BOUNCE_SENDER, BOUNCE_SUBJECT, DELAY_NOTICE, FAILURE_NOTICE};
use super::{notice, notification, status_fields};

/// What a returned mail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnedMailKind {
    /// A mail could not be delivered to at least one recipient.
    Bounce,
    /// A recipient reported a mail as abuse (RFC 5965).
    Complaint,
    /// A program answered for the recipient, for example "out of office" (RFC 3834).
    AutoReply,
    /// A mail was delivered, relayed or expanded.
    Delivered,
    /// A mail is late; the sender of the report will try again.
    Delayed,
    /// Anything else, for example an answer from a person.
    Other,
}

/// What happened to a mail for one recipient (the field `Action` of RFC 3464).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecipientAction {
    /// It could not be delivered.
    Failed,
    /// It has not been delivered yet.
    Delayed,
    /// It was delivered.
    Delivered,
    /// It was handed to a system that sends no reports.
    Relayed,
    /// It was handed to several addresses.
    Expanded,
    /// The recipient reported it as abuse.
    Complained,
}

impl RecipientAction {
    pub(super) fn read(value: &str) -> Self {
        let word = value.trim_start().split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
        match word.to_ascii_lowercase().as_str() {
            "delayed" => Self::Delayed,
            "delivered" | "deliverable" => Self::Delivered,
            "relayed" => Self::Relayed,
            "expanded" => Self::Expanded,
            _ => Self::Failed,
        }
    }
}

/// What a report says about one recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedRecipient {
    /// The position in the report, from 1.
    pub position: usize,
    /// The address that the mail was sent to, if the report names it.
    pub address: Option<String>,
    /// What happened.
    pub action: RecipientAction,
    /// The enhanced status code, for example `5.1.1`.
    pub status: Option<String>,
    /// The SMTP reply code, for example 550.
    pub reply_code: Option<u16>,
    /// The SMTP command that was refused, if the report says so: `connect`, `helo`, `mail`, `rcpt` or `data`.
    pub command: Option<&'static str>,
    /// What the receiving system said.
    pub diagnostic: String,
    /// What the report says to a person about this recipient.
    #[serde(skip)]
    pub notice: String,
}

/// A returned mail. It contains personal data: do not log it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReturnedMail {
    /// What it is.
    pub kind: ReturnedMailKind,
    /// What it says about each recipient, in order.
    pub recipients: Vec<ReportedRecipient>,
    /// The `Message-ID` of the mail that is returned, with its angle brackets.
    pub returned_message_id: Option<String>,
    /// The addresses that the report itself was delivered to: one of them may be our return path.
    pub delivered_to: Vec<String>,
    /// The header of the mail that is returned: names in lower case, and values on one line.
    pub original_headers: Vec<(String, String)>,
}

impl ReturnedMail {
    /// Reads a message of any form. It accepts LF, CRLF and CR at the end of lines, reads the first MiB only, and never
    /// fails: what it does not understand is [`ReturnedMailKind::Other`] without recipients.
    pub fn read(raw: &[u8]) -> Self {
        let bytes = normalised(raw);
        let (headers, body) = split_header(&bytes);
        let contents = Contents::of(&leaves(&headers, body));
        let delivered_to = delivered_to(&headers);
        let original = contents.original_header();
        let (kind, recipients) = contents.read(&headers, &original);
        Self {
            kind,
            recipients,
            returned_message_id: original.get("message-id").map(str::to_owned),
            delivered_to,
            original_headers: original.0,
        }
    }
}

fn delivered_to(headers: &HeaderFields) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in ["delivered-to", "x-original-to", "envelope-to", "to", "cc", "return-path"] {
        for address in headers.all(name).flat_map(addresses_in) {
            if !found.iter().any(|known| known.eq_ignore_ascii_case(address)) && found.len() < 50 {
                found.push(address.to_owned());
            }
        }
    }
    found
}

/// The parts of a report by their meaning.
#[derive(Default)]
struct Contents {
    /// The text for people, without the returned mail.
    notice: String,
    status: Option<String>,
    feedback: Option<String>,
    returned: Option<String>,
}

impl Contents {
    fn of(parts: &[LeafPart]) -> Self {
        let mut contents = Self::default();
        let mut html = String::new();
        for part in parts {
            let text = || String::from_utf8_lossy(&part.body).into_owned();
            match part.media_type.as_str() {
                "message/delivery-status" | "message/global-delivery-status" => {
                    contents.status.get_or_insert_default().push_str(&format!("{}\n\n", text()));
                }
                "message/feedback-report" => contents.feedback = contents.feedback.or_else(|| Some(text())),
                "message/rfc822"
                | "message/global"
                | "text/rfc822-headers"
                | "text/rfc822-header"
                | "message/rfc822-headers"
                | "message/global-headers" => {
                    contents.returned = contents.returned.or_else(|| Some(text()));
                }
                "text/html" => html.push_str(&text()),
                other if other.starts_with("text") || other.is_empty() => {
                    contents.notice.push_str(&text());
                    contents.notice.push('\n');
                }
                _ => {}
            }
        }
        if contents.notice.trim().is_empty() && !html.is_empty() {
            contents.notice = nanohtml2text::html2text(&html).replace("\r\n", "\n");
        }
        let (notice, returned) = notice::split_returned(notice::beginning(&contents.notice));
        if contents.returned.is_none() && !returned.is_empty() {
            contents.returned = Some(returned.to_owned());
        }
        contents.notice = notice.to_owned();
        contents
    }

    fn original_header(&self) -> HeaderFields {
        self.returned.as_deref().map(notice::returned_header).unwrap_or_default()
    }

    fn read(&self, headers: &HeaderFields, original: &HeaderFields) -> (ReturnedMailKind, Vec<ReportedRecipient>) {
        if let Some(feedback) = &self.feedback {
            return (ReturnedMailKind::Complaint, status_fields::complained(feedback));
        }
        if let Some(recipients) = notification::read(&self.notice) {
            return (kind_of(&recipients), recipients);
        }
        let mut recipients = self.recipients_by_fields();
        if recipients.is_empty() {
            match kind_by_header(headers) {
                ReturnedMailKind::Bounce => {}
                ReturnedMailKind::Other if FAILURE_NOTICE.occur_in(&self.beginning()) => {}
                other => return (other, Vec::new()),
            }
            recipients = self.recipients_by_notice(headers, original);
            if DELAY_NOTICE.occur_in(&self.notice) {
                recipients.iter_mut().for_each(|recipient| recipient.action = RecipientAction::Delayed);
            }
        }
        for recipient in &mut recipients {
            recipient.command = command_in(&recipient.diagnostic).or_else(|| command_in(&recipient.notice));
        }
        (kind_of(&recipients), recipients)
    }

    /// Returns the first lines for people: a failure is announced there or not at all.
    fn beginning(&self) -> String {
        let lines = self.notice.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('>'));
        lines.take(20).collect::<Vec<_>>().join(" ")
    }

    fn recipients_by_fields(&self) -> Vec<ReportedRecipient> {
        let mut recipients = status_fields::recipients(self.status.as_deref().unwrap_or(&self.notice));
        if recipients.is_empty() {
            return recipients;
        }
        let addresses: Vec<String> = recipients.iter().filter_map(|recipient| recipient.address.clone()).collect();
        let told = notice::recipients(&self.notice, &addresses, &[], &[]);
        for recipient in &mut recipients {
            let about = told.iter().find(|told| told.address == recipient.address).or(told.first());
            let Some(about) = about else { continue };
            recipient.notice = about.notice.clone();
            if recipient.diagnostic.is_empty() {
                recipient.diagnostic = about.diagnostic.clone();
                recipient.reply_code = recipient.reply_code.or(about.reply_code);
                let is_general = recipient.status.as_deref().is_none_or(super::codes::is_general);
                if is_general {
                    recipient.status = about.status.clone().or(recipient.status.take());
                }
            }
        }
        recipients
    }

    fn recipients_by_notice(&self, headers: &HeaderFields, original: &HeaderFields) -> Vec<ReportedRecipient> {
        let addresses = |value: &str| addresses_in(value).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let failed: Vec<String> = headers.all("x-failed-recipients").flat_map(addresses).take(100).collect();
        // Our own addresses, and that of the report. `X-Original-To` is not among them: some systems write the
        // recipient that failed into it.
        let mut own: Vec<String> =
            ["to", "from"].iter().flat_map(|name| headers.all(name)).flat_map(addresses).collect();
        for name in ["from", "return-path", "sender"] {
            own.extend(original.all(name).flat_map(addresses));
        }
        let to: Vec<String> = ["to", "cc"].iter().flat_map(|name| original.all(name)).flat_map(addresses).collect();
        notice::recipients(&self.notice, &failed, &own, &to)
    }
}

fn kind_of(recipients: &[ReportedRecipient]) -> ReturnedMailKind {
    let any = |action| recipients.iter().any(|recipient| recipient.action == action);
    if any(RecipientAction::Complained) {
        ReturnedMailKind::Complaint
    } else if any(RecipientAction::Failed) {
        ReturnedMailKind::Bounce
    } else if any(RecipientAction::Delayed) {
        ReturnedMailKind::Delayed
    } else {
        ReturnedMailKind::Delivered
    }
}

/// Decides by the header of a message that has no fields of a report.
fn kind_by_header(headers: &HeaderFields) -> ReturnedMailKind {
    let subject = decoded_subject(headers);
    let from = headers.get("from").unwrap_or_default();
    let submitted = headers.get("auto-submitted").unwrap_or("no").to_ascii_lowercase();
    let replies = submitted.starts_with("auto-replied")
        || headers.get("x-autoreply").is_some()
        || headers.get("x-autorespond").is_some()
        || headers
            .get("precedence")
            .is_some_and(|value| value.to_ascii_lowercase().replace('-', "_").contains("auto_reply"));
    let is_failure = BOUNCE_SUBJECT.occur_in(&subject) || headers.get("x-failed-recipients").is_some();
    let content_type = headers.get("content-type").unwrap_or_default().to_ascii_lowercase();
    // A receipt (RFC 8098) is a report as well, but not of a failure.
    let is_receipt = content_type.contains("disposition-notification");
    let is_report = content_type.contains("multipart/report") && !is_receipt;
    if is_receipt {
        ReturnedMailKind::Other
    } else if is_failure || is_report || (BOUNCE_SENDER.occur_in(from) && !replies) {
        ReturnedMailKind::Bounce
    } else if replies || AUTO_REPLY_SUBJECT.occur_in(&subject) || submitted.starts_with("auto-") {
        ReturnedMailKind::AutoReply
    } else {
        ReturnedMailKind::Other
    }
}

fn decoded_subject(headers: &HeaderFields) -> String {
    let raw = headers.get("subject").unwrap_or_default();
    let line = format!("Subject: {raw}");
    mailparse::parse_header(line.as_bytes()).map_or_else(|_| raw.to_owned(), |(header, _)| header.get_value())
}
