//! The recipients of a mail, read from the texts of a request.

use onceward_mail::address::{EmailAddress, Mailbox};
use std::collections::HashSet;

/// The field in which a recipient is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecipientField {
    To,
    Cc,
    Bcc,
}

impl RecipientField {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::To => "to",
            Self::Cc => "cc",
            Self::Bcc => "bcc",
        }
    }
}

/// What is wrong with one recipient. The text does not repeat the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecipientProblem {
    /// The path in the request: `/to/0`.
    pub path: String,
    pub message: String,
}

/// The recipients as they are shown, in To, Cc and, to nobody, Bcc.
#[derive(Clone)]
pub(crate) struct Recipients {
    pub to: Vec<Mailbox>,
    pub cc: Vec<Mailbox>,
    pub bcc: Vec<Mailbox>,
}

impl Recipients {
    /// Reads all recipients. Returns every problem, also if there are none or more than `max`.
    pub(crate) fn parse(
        to: &[String],
        cc: &[String],
        bcc: &[String],
        max: usize,
    ) -> Result<Self, Vec<RecipientProblem>> {
        let mut problems = Vec::new();
        let count = to.len() + cc.len() + bcc.len();
        if to.is_empty() || count > max {
            let message = format!("name from 1 to {max} recipients, and at least one of them in `to`");
            problems.push(RecipientProblem { path: "/to".to_owned(), message });
        }
        let mut parse = |field: RecipientField, texts: &[String]| -> Vec<Mailbox> {
            let parsed = texts.iter().enumerate().map(|(index, text)| {
                parse_mailbox(text)
                    .map_err(|message| RecipientProblem { path: format!("/{}/{index}", field.as_str()), message })
            });
            parsed.filter_map(|mailbox| mailbox.map_err(|problem| problems.push(problem)).ok()).collect()
        };
        let recipients = Self {
            to: parse(RecipientField::To, to),
            cc: parse(RecipientField::Cc, cc),
            bcc: parse(RecipientField::Bcc, bcc),
        };
        if problems.is_empty() { Ok(recipients) } else { Err(problems) }
    }

    /// Returns every address once, in the order of the request: each gets an envelope of its own.
    pub(crate) fn envelopes(&self) -> Vec<(RecipientField, &EmailAddress)> {
        let fields = [(RecipientField::To, &self.to), (RecipientField::Cc, &self.cc), (RecipientField::Bcc, &self.bcc)];
        let all =
            fields.into_iter().flat_map(|(field, mailboxes)| mailboxes.iter().map(move |mailbox| (field, mailbox)));
        let mut seen = HashSet::new();
        all.map(|(field, mailbox)| (field, mailbox.address()))
            .filter(|(_, address)| seen.insert(address.suppression_key()))
            .collect()
    }
}

/// Reads `address` or `Name <address>`.
pub(crate) fn parse_mailbox(text: &str) -> Result<Mailbox, String> {
    let text = text.trim();
    let (name, address) = match text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
        Some((name, address)) => (Some(name.trim().trim_matches('"')).filter(|name| !name.is_empty()), address),
        None => (None, text),
    };
    let address = EmailAddress::parse(address).map_err(|error| error.to_string())?;
    Mailbox::new(name, address).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn each_address_has_one_envelope_and_is_shown_as_written() {
        let to = texts(&["Ada <ada@example.org>", "bob@example.org"]);
        let recipients = Recipients::parse(&to, &texts(&["ADA@example.org"]), &texts(&["eve@example.org"]), 50);
        let recipients = recipients.unwrap_or_else(|_| panic!("they are valid"));
        assert_eq!(recipients.to[0].name(), Some("Ada"));
        let envelopes: Vec<_> = recipients
            .envelopes()
            .iter()
            .map(|(field, address)| (field.as_str(), address.as_str().to_owned()))
            .collect();
        let expected = [("to", "ada@example.org"), ("to", "bob@example.org"), ("bcc", "eve@example.org")];
        assert_eq!(envelopes, expected.map(|(field, address)| (field, address.to_owned())));
    }

    #[test]
    fn every_wrong_recipient_is_reported_by_its_path_without_its_address() {
        let to = texts(&["good@example.org", "A\nB <x@example.org>", "a@b.c>\r\nRCPT TO:<x@y.example"]);
        let Err(problems) = Recipients::parse(&to, &texts(&["nobody"]), &[], 50) else { panic!("they are wrong") };
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["/to/1", "/to/2", "/cc/0"]);
        assert!(
            problems.iter().all(|problem| !problem.message.contains("example") && !problem.message.contains("nobody"))
        );
        assert!(Recipients::parse(&[], &[], &[], 50).is_err());
        assert!(Recipients::parse(&texts(&["a@example.org", "b@example.org"]), &[], &[], 1).is_err());
    }
}
