//! An address as the envelope carries it, and the rules by which text becomes one.
//!
//! Accepted is what a mailbox on the Internet has: a dot-atom, `@`, and a domain of at least two labels. Quoted local
//! parts, comments, white space, obsolete forms, address literals, single labels and numeric top-level domains are
//! legal in some reading of the standards and refused here, because they are mistakes far more often than mailboxes.

use super::is_invisible;
use icu_normalizer::ComposingNormalizerBorrowed;
use idna::AsciiDenyList;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};

const MAX_ADDRESS_BYTES: usize = 254;
const MAX_LOCAL_BYTES: usize = 64;
const MAX_LABEL_BYTES: usize = 63;

/// A valid address. The local part is as written; the domain is in lower case, as A-labels.
///
/// It has no `Display`, and `Debug` shows nothing of it: whoever prints an address must write [`EmailAddress::as_str`].
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EmailAddress {
    text: String,
    at: usize,
}

/// Why text is not an address that can be written to. It never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmailAddressError {
    /// A line break, NUL or another control character, which could smuggle a command or a header.
    #[error("the address contains a control character, such as a line break: remove it")]
    ControlCharacter,
    /// White space, also at the ends.
    #[error("the address contains white space: remove it")]
    WhiteSpace,
    /// `<` or `>`.
    #[error("the address contains an angle bracket: write the address alone, without a name")]
    AngleBracket,
    /// A comment.
    #[error("the address contains a parenthesis: comments are not accepted")]
    Comment,
    /// A quoted local part.
    #[error("the address contains a quotation mark: quoted local parts are not accepted")]
    Quoted,
    /// There is no `@`, or more than one.
    #[error("an address has exactly one @ between its local part and its domain")]
    AtSign,
    /// Nothing before the `@`.
    #[error("the local part, before the @, is missing")]
    NoLocalPart,
    /// Nothing after the `@`.
    #[error("the domain, after the @, is missing")]
    NoDomain,
    /// A dot at either end of the local part, or two together.
    #[error("the local part must not begin or end with a dot, or contain two together")]
    LocalDots,
    /// A character that no local part has.
    #[error("the local part contains a character that is not allowed there")]
    LocalCharacter,
    /// More than 64 bytes before the `@`.
    #[error("the local part is longer than {MAX_LOCAL_BYTES} bytes")]
    LocalTooLong,
    /// A domain literal, such as `[192.0.2.1]`.
    #[error("the domain is an address literal: use a domain name")]
    DomainLiteral,
    /// An empty label: a dot at either end, or two together.
    #[error("the domain must not begin or end with a dot, or contain two together")]
    DomainDots,
    /// A label that begins or ends with a hyphen.
    #[error("a label of the domain begins or ends with a hyphen")]
    DomainHyphen,
    /// The domain has a character that no host name has, or is not a valid internationalised name.
    #[error("the domain contains a character that is not allowed there")]
    DomainCharacter,
    /// More than 63 bytes between two dots.
    #[error("a label of the domain is longer than {MAX_LABEL_BYTES} bytes")]
    LabelTooLong,
    /// A single label, such as `localhost`.
    #[error("the domain has one label only: write it with its top-level domain")]
    SingleLabel,
    /// The last label begins with a digit.
    #[error("the top-level domain begins with a digit: use a domain name")]
    NumericTopLevel,
    /// More than 254 bytes.
    #[error("the address is longer than {MAX_ADDRESS_BYTES} bytes")]
    TooLong,
}

impl EmailAddress {
    /// Parses an address without a name. Nothing is trimmed or repaired.
    pub fn parse(text: &str) -> Result<Self, EmailAddressError> {
        refuse_characters(text)?;
        let (local, domain) = text.split_once('@').ok_or(EmailAddressError::AtSign)?;
        if domain.contains('@') {
            return Err(EmailAddressError::AtSign);
        }
        check_local(local)?;
        let domain = domain_to_a_labels(domain)?;
        let text = format!("{local}@{domain}");
        if text.len() > MAX_ADDRESS_BYTES {
            return Err(EmailAddressError::TooLong);
        }
        Ok(Self { text, at: local.len() })
    }

    /// Returns the address as the envelope carries it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the local part, as written.
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// Returns the domain in lower case, as A-labels.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// Returns the form by which suppressions are compared: the local part in NFC and lower case, with its dots and
    /// its part after a plus sign, because only the receiving domain knows what these mean.
    pub fn suppression_key(&self) -> String {
        let nfc = ComposingNormalizerBorrowed::new_nfc();
        // Lower-casing can decompose a character, so the result is composed again.
        let local = nfc.normalize(self.local()).to_lowercase();
        format!("{}@{}", nfc.normalize(&local), self.domain())
    }

    /// Returns whether only a server with SMTPUTF8 accepts it: the local part is not ASCII.
    pub fn needs_smtputf8(&self) -> bool {
        !self.local().is_ascii()
    }
}

impl TryFrom<String> for EmailAddress {
    type Error = EmailAddressError;

    fn try_from(text: String) -> Result<Self, EmailAddressError> {
        Self::parse(&text)
    }
}

impl From<EmailAddress> for String {
    fn from(address: EmailAddress) -> Self {
        address.text
    }
}

impl fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmailAddress(…)")
    }
}

/// Refuses the characters that no part of an address may have, with the reason that helps most.
fn refuse_characters(text: &str) -> Result<(), EmailAddressError> {
    for character in text.chars() {
        match character {
            _ if character.is_control() => return Err(EmailAddressError::ControlCharacter),
            _ if character.is_whitespace() => return Err(EmailAddressError::WhiteSpace),
            '<' | '>' => return Err(EmailAddressError::AngleBracket),
            '(' | ')' => return Err(EmailAddressError::Comment),
            '"' => return Err(EmailAddressError::Quoted),
            _ => {}
        }
    }
    Ok(())
}

fn check_local(local: &str) -> Result<(), EmailAddressError> {
    if local.is_empty() {
        return Err(EmailAddressError::NoLocalPart);
    }
    if local.split('.').any(str::is_empty) {
        return Err(EmailAddressError::LocalDots);
    }
    if !local.chars().all(|character| character == '.' || is_atom_character(character)) {
        return Err(EmailAddressError::LocalCharacter);
    }
    if local.len() > MAX_LOCAL_BYTES { Err(EmailAddressError::LocalTooLong) } else { Ok(()) }
}

/// Returns whether an atom of RFC 5322, or of RFC 6531 beyond ASCII, may have this character.
fn is_atom_character(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character);
    }
    is_written_text(character)
}

/// Returns whether a character beyond ASCII belongs to a word: it is visible, and neither punctuation nor a symbol of
/// the blocks that hold nothing else. The two joiners are needed by several scripts.
fn is_written_text(character: char) -> bool {
    let is_joiner = matches!(character, '\u{200C}' | '\u{200D}');
    let is_symbol = matches!(character, '\u{0080}'..='\u{00A9}' | '\u{2000}'..='\u{2BFF}' | '\u{E000}'..='\u{F8FF}');
    is_joiner || !(is_symbol || is_invisible(character))
}

/// Returns the domain in lower case, as A-labels.
fn domain_to_a_labels(domain: &str) -> Result<Cow<'_, str>, EmailAddressError> {
    if domain.is_empty() {
        return Err(EmailAddressError::NoDomain);
    }
    if domain.starts_with('[') {
        return Err(EmailAddressError::DomainLiteral);
    }
    if !domain.chars().all(|character| character.is_ascii() || is_written_text(character) || is_dot(character)) {
        return Err(EmailAddressError::DomainCharacter);
    }
    // The errors of UTS 46 have no detail, so what can be said about plain labels is said first.
    check_labels(domain.split(|character| character == '.' || is_dot(character)))?;
    let ascii = idna::domain_to_ascii_from_cow(Cow::Borrowed(domain.as_bytes()), AsciiDenyList::STD3)
        .map_err(|_| EmailAddressError::DomainCharacter)?;
    let last = check_labels(ascii.split('.'))?;
    if last.starts_with(|character: char| character.is_ascii_digit()) {
        return Err(EmailAddressError::NumericTopLevel);
    }
    if ascii.contains('.') { Ok(ascii) } else { Err(EmailAddressError::SingleLabel) }
}

/// Returns whether UTS 46 reads this character as a dot.
fn is_dot(character: char) -> bool {
    matches!(character, '\u{3002}' | '\u{FF0E}' | '\u{FF61}')
}

/// Checks each label by itself, and returns the last.
fn check_labels<'d>(labels: impl Iterator<Item = &'d str>) -> Result<&'d str, EmailAddressError> {
    let mut last = "";
    for label in labels {
        if label.is_empty() {
            return Err(EmailAddressError::DomainDots);
        }
        let is_host = |character: char| character.is_ascii_alphanumeric() || character == '-' || !character.is_ascii();
        if !label.chars().all(is_host) {
            return Err(EmailAddressError::DomainCharacter);
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(EmailAddressError::DomainHyphen);
        }
        if label.is_ascii() && label.len() > MAX_LABEL_BYTES {
            return Err(EmailAddressError::LabelTooLong);
        }
        last = label;
    }
    Ok(last)
}
