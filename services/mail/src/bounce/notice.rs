//! Reads what a report says to a person. Nearly half of all bounces have no fields for programs.

use super::bytes::{HeaderFields, field, split_header};
use super::codes::{addresses_in, reply_code_in, status_in};
use super::phrases::ANNOUNCEMENT;
use super::report::{RecipientAction, ReportedRecipient};

const MAX_RECIPIENTS: usize = 50;
/// A report says what it has to say at its beginning; the limit bounds the work of finding recipients in it.
const MAX_TEXT_BYTES: usize = 48 * 1024;
const MAX_CANDIDATES: usize = 200;
const MAX_NOTICE_CHARS: usize = 4_000;

/// Returns the part of a text that is read.
pub(super) fn beginning(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_TEXT_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// Separates the text of a report from the mail that it returns.
pub(super) fn split_returned(text: &str) -> (&str, &str) {
    let mut at = 0;
    let mut begin_of_block = 0;
    let mut previous_is_blank = true;
    let mut candidates = 0;
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if previous_is_blank && !is_blank {
            begin_of_block = at;
        }
        let announced = !is_blank && ANNOUNCEMENT.occur_in(line);
        if announced && at > 0 && begins_header(&text[at + line.len()..], 6) {
            return (&text[..at], &text[at + line.len()..]);
        }
        candidates += usize::from(is_header_of_mail(line));
        if is_header_of_mail(line) && at > 0 && candidates < MAX_CANDIDATES && begins_header(&text[at..], 1) {
            // Fields that precede the first unmistakable one belong to the returned mail as well.
            let begin = if begins_header(&text[begin_of_block..], 1) { begin_of_block } else { at };
            if begin > 0 {
                return (&text[..begin], &text[begin..]);
            }
        }
        at += line.len();
        previous_is_blank = is_blank;
    }
    (text, "")
}

/// Fields that a mail has and that the fields of a report have not.
fn is_header_of_mail(line: &str) -> bool {
    const NAMES: &[&str] = &[
        "received",
        "return-path",
        "message-id",
        "mime-version",
        "x-originating-ip",
        "dkim-signature",
        "delivered-to",
    ];
    field(line).is_some_and(|(name, _)| NAMES.contains(&name.as_str()))
}

/// Returns true if at least three header fields of a mail begin within the first lines.
fn begins_header(text: &str, within_lines: usize) -> bool {
    let first = text.lines().take(within_lines).position(|line| field(line).is_some());
    let Some(first) = first else { return false };
    let (fields, _) = split_header(text.lines().skip(first).take(60).collect::<Vec<_>>().join("\n").as_bytes());
    let usual = ["received", "from", "to", "subject", "date", "message-id", "return-path", "mime-version"];
    usual.iter().filter(|name| fields.get(name).is_some()).count() >= 3
}

/// Returns the header of the returned mail, which may begin after empty lines or an envelope.
pub(super) fn returned_header(text: &str) -> HeaderFields {
    let mut rest = text.trim_start();
    for _ in 0..10 {
        let (fields, after) = split_header(rest.as_bytes());
        if fields.0.len() >= 2 {
            return fields;
        }
        let next = if after.len() < rest.len() {
            rest.len() - after.len()
        } else {
            rest.find('\n').map_or(rest.len(), |end| end + 1)
        };
        rest = rest.get(next..).unwrap_or_default().trim_start_matches('\n');
        if rest.is_empty() {
            break;
        }
    }
    HeaderFields::default()
}

/// Reads the recipients of a report without fields. `failed` are the addresses that a header of the report names, and
/// `own` the addresses of the sender and of the report itself.
pub(super) fn recipients(text: &str, failed: &[String], own: &[String], to: &[String]) -> Vec<ReportedRecipient> {
    let addresses = match failed {
        [] => failed_addresses(text, own, to),
        named => named.iter().take(MAX_RECIPIENTS).cloned().collect(),
    };
    let several = addresses.len() > 1;
    let recipient = |(index, address): (usize, &String)| {
        let about = if several { about(text, address, &addresses) } else { limited(text) };
        let diagnostic = replies(&about);
        ReportedRecipient {
            position: index + 1,
            address: Some(address.clone()),
            action: RecipientAction::Failed,
            status: status_in(&diagnostic).or_else(|| status_in(&about)),
            reply_code: reply_code_in(&diagnostic),
            command: None,
            diagnostic: if diagnostic.is_empty() { about.clone() } else { diagnostic },
            notice: about,
        }
    };
    let mut found: Vec<ReportedRecipient> = addresses.iter().enumerate().map(recipient).collect();
    if found.is_empty() && !text.trim().is_empty() {
        let diagnostic = replies(text);
        found.push(ReportedRecipient {
            position: 1,
            address: None,
            action: RecipientAction::Failed,
            status: status_in(text),
            reply_code: reply_code_in(&diagnostic),
            command: None,
            diagnostic: if diagnostic.is_empty() { limited(text) } else { diagnostic },
            notice: limited(text),
        });
    }
    found
}

fn limited(text: &str) -> String {
    text.chars().take(MAX_NOTICE_CHARS).collect()
}

/// Returns the addresses that the text reports: those that begin a line, or else any, or else those of the mail itself.
fn failed_addresses(text: &str, own: &[String], to: &[String]) -> Vec<String> {
    let is_foreign = |address: &str| {
        let local = address.split('@').next().unwrap_or_default().to_ascii_lowercase();
        let is_service = matches!(local.as_str(), "postmaster" | "mailer-daemon" | "abuse" | "noreply" | "no-reply");
        let is_addressed = to.iter().any(|to| to.eq_ignore_ascii_case(address));
        (!is_service || is_addressed) && !own.iter().any(|own| own.eq_ignore_ascii_case(address))
    };
    let mut leading: Vec<String> = Vec::new();
    let mut any: Vec<String> = Vec::new();
    for line in text.lines() {
        let bare = without_codes(line);
        for address in addresses_in(line) {
            if !is_foreign(address) {
                continue;
            }
            let target = if bare.starts_with(address) { &mut leading } else { &mut any };
            if !target.iter().any(|known| known.eq_ignore_ascii_case(address)) && target.len() < MAX_RECIPIENTS {
                target.push(address.to_owned());
            }
        }
    }
    // Someone to whom the mail was addressed is certainly a recipient; other addresses may belong to a help desk.
    let addressed = |found: &[String]| {
        let known = |address: &&String| to.iter().any(|to| to.eq_ignore_ascii_case(address));
        found.iter().filter(known).cloned().collect::<Vec<_>>()
    };
    let mentioned_to = addressed(&any);
    match (leading.is_empty(), mentioned_to.is_empty()) {
        (false, _) => leading,
        (true, false) => mentioned_to,
        (true, true) if !any.is_empty() => any.into_iter().take(1).collect(),
        (true, true) => to.iter().filter(|address| is_foreign(address)).take(1).cloned().collect(),
    }
}

/// Removes bullets, quotes and codes from the beginning of a line: `<<< 550 5.1.1 <a@example.com>` names its recipient.
fn without_codes(line: &str) -> &str {
    line.trim_start_matches(|letter: char| {
        letter.is_whitespace() || letter.is_ascii_digit() || "<>*-\"'(.#:".contains(letter)
    })
}

/// Returns the lines from each mention of an address to the mention of another.
fn about(text: &str, address: &str, all: &[String]) -> String {
    let all: Vec<String> = all.iter().map(|other| other.to_ascii_lowercase()).collect();
    let address = address.to_ascii_lowercase();
    let mut lines = Vec::new();
    let mut is_about = false;
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        if lower.contains(&address) {
            is_about = true;
        } else if lower.contains('@') && all.iter().any(|other| lower.contains(other)) {
            is_about = false;
        }
        if is_about {
            lines.push(line);
        }
    }
    limited(&lines.join("\n"))
}

/// Returns the lines that quote an SMTP reply, with the lines that continue them.
fn replies(text: &str) -> String {
    let mut found = String::new();
    let mut continues = false;
    for line in text.lines() {
        let is_reply = reply_code_in(line).is_some() || status_in(line).is_some();
        if is_reply && !found.is_empty() {
            found.push_str(" /");
        }
        continues = is_reply || (continues && !line.trim().is_empty());
        if continues {
            found.push(' ');
            found.push_str(line.trim());
        }
    }
    limited(found.trim())
}
