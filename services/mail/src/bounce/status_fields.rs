//! The fields of a delivery status notification (RFC 3464) and of a feedback report (RFC 5965).

use super::bytes::{HeaderFields, split_header};
use super::codes::{addresses_in, innermost, is_general, reply_code_in, spoken_status_in, status_in};
use super::report::{RecipientAction, ReportedRecipient};

const MAX_RECIPIENTS: usize = 100;
const MAX_DIAGNOSTIC_CHARS: usize = 4_000;

/// Reads the groups of fields that describe a recipient. Text between the groups is skipped, because some senders write
/// the fields into the body of a plain message.
pub(super) fn recipients(text: &str) -> Vec<ReportedRecipient> {
    let mut found = Vec::new();
    for block in text.split("\n\n") {
        let block = block.trim_start_matches('\n');
        let Some(begin) = first_field(block) else { continue };
        let (fields, _) = split_header(&block.as_bytes()[begin..]);
        for group in groups(&fields) {
            if found.len() < MAX_RECIPIENTS {
                found.extend(recipient(&group, found.len() + 1));
            }
        }
    }
    found
}

/// Returns where the fields of a recipient begin.
fn first_field(block: &str) -> Option<usize> {
    const NAMES: &[&str] = &["final-recipient:", "original-recipient:", "action:", "status:", "diagnostic-code:"];
    let mut at = 0;
    for line in block.split_inclusive('\n') {
        let lower = line.to_ascii_lowercase();
        if NAMES.iter().any(|name| lower.starts_with(name)) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// Some senders write several recipients without an empty line in between.
fn groups(fields: &HeaderFields) -> Vec<HeaderFields> {
    let mut groups: Vec<HeaderFields> = Vec::new();
    for (name, value) in &fields.0 {
        let repeats = groups.last().is_some_and(|group| group.get(name).is_some());
        let begins = matches!(name.as_str(), "final-recipient" | "original-recipient") && repeats;
        if groups.is_empty() || begins {
            groups.push(HeaderFields::default());
        }
        if let Some(group) = groups.last_mut() {
            group.0.push((name.clone(), value.clone()));
        }
    }
    groups
}

fn recipient(fields: &HeaderFields, position: usize) -> Option<ReportedRecipient> {
    let address = |name: &str| fields.get(name).and_then(typed_address);
    let named = ["original-recipient", "final-recipient", "x-actual-recipient"];
    fields.get("final-recipient").or(fields.get("original-recipient"))?;
    let diagnostic = fields.get("diagnostic-code").unwrap_or_default();
    let diagnostic = innermost(&diagnostic.chars().take(MAX_DIAGNOSTIC_CHARS).collect::<String>());
    // A comment may follow the code: `5.0.0 (permanent failure)`.
    let field_status = fields.get("status");
    Some(ReportedRecipient {
        position,
        address: named.iter().find_map(|name| address(name)),
        action: fields.get("action").map_or(RecipientAction::Failed, RecipientAction::read),
        status: status(field_status, &diagnostic),
        reply_code: reply_code_in(&diagnostic).or_else(|| field_status.and_then(reply_code_in)),
        command: None,
        diagnostic: with_comment(diagnostic, field_status),
        notice: String::new(),
    })
}

/// Prefers the code that the server spoke over the code in the field, which the reporting system may have chosen.
fn status(field: Option<&str>, diagnostic: &str) -> Option<String> {
    let telling = |status: Option<String>| status.filter(|status| !is_general(status));
    let in_field = field.and_then(status_in);
    telling(spoken_status_in(diagnostic))
        .or_else(|| telling(in_field.clone()))
        .or_else(|| telling(status_in(diagnostic)))
        .or(in_field)
        .or_else(|| status_in(diagnostic))
}

/// The comment of the status field is the only explanation in some reports.
fn with_comment(diagnostic: String, status: Option<&str>) -> String {
    let comment = status.and_then(|status| Some(&status[status.find('(')?..]));
    match comment {
        Some(comment) if diagnostic.is_empty() => comment.trim_matches(['(', ')']).to_owned(),
        _ => diagnostic,
    }
}

/// Reads `rfc822; a@example.com`; the type may be in any case or absent, and the address may be in angle brackets.
fn typed_address(value: &str) -> Option<String> {
    let address = value.split_once(';').map_or(value, |(_, address)| address).trim();
    let bracketed = address.trim_start_matches('<').trim_end_matches('>');
    addresses_in(bracketed).first().map(|address| (*address).to_owned())
}

/// Reads the recipients of a feedback report. Many reports hide the address.
pub(super) fn complained(text: &str) -> Vec<ReportedRecipient> {
    let (fields, _) = split_header(text.trim_start().as_bytes());
    let names = ["original-rcpt-to", "removal-recipient"];
    let mut addresses: Vec<Option<String>> = Vec::new();
    for value in names.iter().flat_map(|name| fields.all(name)).take(MAX_RECIPIENTS) {
        addresses.push(addresses_in(value).first().map(|address| (*address).to_owned()));
    }
    if addresses.is_empty() {
        addresses.push(None);
    }
    let kind = fields.get("feedback-type").unwrap_or("abuse").to_owned();
    let recipients = addresses.into_iter().enumerate().map(|(index, address)| ReportedRecipient {
        position: index + 1,
        address,
        action: RecipientAction::Complained,
        status: None,
        reply_code: None,
        command: None,
        diagnostic: kind.clone(),
        notice: String::new(),
    });
    recipients.collect()
}
