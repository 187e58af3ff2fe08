//! What the text of an answer says: the server's id of a mail, and how long to wait.

use std::time::Duration;

const MAX_TEXT_CHARACTERS: usize = 500;
const MAX_ID_BYTES: usize = 128;
/// A shorter word with a digit is as likely a number of bytes or of seconds as an id.
const MIN_ID_BYTES: usize = 8;
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the text with addresses replaced, without control characters, and of at most 500 characters.
pub(super) fn bounded(text: &str) -> String {
    let words = text.split(|character: char| character.is_control() || character.is_whitespace());
    let shown = words
        .filter(|word| !word.is_empty())
        .map(|word| if word.contains('@') { hidden(word) } else { word.to_owned() });
    shown.collect::<Vec<_>>().join(" ").chars().take(MAX_TEXT_CHARACTERS).collect()
}

/// Returns the word with its address replaced. What encloses the address stays, because classifiers look for it.
fn hidden(word: &str) -> String {
    let is_outer = |character: char| "<>()[]{}\"',;:".contains(character);
    let start = word.find(|character| !is_outer(character)).unwrap_or(0);
    let end = word.trim_end_matches(is_outer).len().max(start);
    format!("{}address{}", &word[..start], &word[end..])
}

/// Returns the id under which the server stores the mail, from the answer to the final dot.
pub(super) fn provider_id(text: &str) -> Option<String> {
    let is_outer = |character: char| !character.is_ascii_alphanumeric();
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(is_outer)).collect();
    let named = words.iter().find_map(|word| word.strip_prefix("id="));
    let queued = words.windows(3).find_map(|three| match three {
        ["queued", "as", id] => Some(*id),
        _ => None,
    });
    let is_id = |word: &&&str| {
        word.len() >= MIN_ID_BYTES
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let longest = || words.iter().filter(is_id).max_by_key(|word| word.len()).copied();
    let id = named.or(queued).or_else(longest)?;
    (!id.is_empty() && id.len() <= MAX_ID_BYTES).then(|| id.to_owned())
}

/// Returns how long a transient refusal asks to wait: "try again in 300 seconds", "retry after 5 minutes".
pub(super) fn retry_after(text: &str) -> Option<Duration> {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    if !words.iter().any(|word| matches!(*word, "again" | "retry" | "wait" | "back" | "later")) {
        return None;
    }
    words.windows(2).find_map(|pair| {
        // Some write the unit without a space: 300s.
        let digits = pair[0].trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = if digits.len() < pair[0].len() { &pair[0][digits.len()..] } else { pair[1] };
        let number: u64 = digits.parse().ok()?;
        let seconds = match unit {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3600,
            _ => return None,
        };
        Some(Duration::from_secs(number.saturating_mul(seconds)).min(MAX_WAIT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_the_answers_of_common_servers() {
        let cases = [
            ("2.0.0 Ok: queued as 4XyZ1n2Kq9z1", Some("4XyZ1n2Kq9z1")),
            ("OK id=1rAbCd-0004Xy-2Z", Some("1rAbCd-0004Xy-2Z")),
            ("2.0.0 xA1BCdef012345 Message accepted for delivery", Some("xA1BCdef012345")),
            (
                "2.0.0 OK  1700000000 d2e1a72fcca58-6b3c4f0a2bcsm123456b3a.12 - gsmtp",
                Some("d2e1a72fcca58-6b3c4f0a2bcsm123456b3a.12"),
            ),
            ("Ok 0102018c1b2a3d4e-5f6a7b8c-0000-000000", Some("0102018c1b2a3d4e-5f6a7b8c-0000-000000")),
            ("OK", None),
            ("Message accepted, 1024 bytes", None),
        ];
        for (text, id) in cases {
            assert_eq!(provider_id(text).as_deref(), id, "{text}");
        }
    }

    #[test]
    fn a_wait_is_read_only_where_one_is_asked_for() {
        let cases = [
            ("4.7.1 Greylisted, please try again in 300 seconds", Some(300)),
            ("Try again in 5 minutes.", Some(300)),
            ("please retry after 2 hours", Some(7200)),
            ("greylisted; retry in 60s please", Some(60)),
            ("try again in 999999999999 hours", Some(86_400)),
            ("4.2.2 Mailbox full", None),
            ("timed out after 30 seconds", None),
            ("try again later", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(retry_after(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn texts_are_bounded_and_have_no_addresses_or_control_characters() {
        assert_eq!(
            bounded("5.1.1 <joe@example.com>: Recipient address\r\n rejected\u{7} (see joe@example.com)"),
            "5.1.1 <address>: Recipient address rejected (see address)"
        );
        assert_eq!(bounded(&"ä".repeat(2000)).chars().count(), 500);
    }
}
