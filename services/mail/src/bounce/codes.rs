//! Finds SMTP reply codes, enhanced status codes and addresses in text.

use std::sync::LazyLock;

use regex::Regex;

/// An enhanced status code, with what stands before and after it, because an IP address is not one.
static STATUS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\d.\w-]|\b[245]\d\d-)([245]\.\d{1,3}\.\d{1,3})(?:$|[^\d.]|\.(?:$|\D))").ok());
/// A reply code at the beginning of a reply.
static REPLY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let before = r"(?:^|[\s:;(\[<>'\x22,=-])(?:smtp;\s*|error[ :]*|code[ :=]*|SMTP )*";
    Regex::new(&format!(r"(?im){before}([45][0-7]\d)(?:[ \t-]|$|[:;)\]\x22',.](?:\s|$)|#\d)")).ok()
});
/// A status code directly after a reply code, as a server writes them.
static SPOKEN_STATUS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b[245]\d\d[ -]+[#(]?([245]\.\d{1,3}\.\d{1,3})(?:$|[^\d.])").ok());
/// A reply inside the words of a system in between: `error 550-'5.2.2 …'` or `expired … <421 4.4.2 …>`.
static INNER_REPLY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:error |<)([45]\d\d[ -]'?[45]\.\d{1,3}\.\d{1,3} .{0,2000}?)(?:'|>$|$)").ok());
/// The SMTP command that was refused, in the words of several systems.
static COMMAND: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let phrases = [
        r"in reply to (?:end of )?(rcpt|data|mail|helo|ehlo|initial)",
        r"(?:after|during|for|like our|response to|reply to|progress was) (?:the )?(?:end of |sending )?(rcpt|data) ?",
        r"(?:after|during|for|like our|response to) (mail|text|helo|ehlo|initial)[ _:](?:from|command|connection)",
        r"\[(rcpt|data|mail)_?\w*\]",
        r"(?:smtp command|command|stage)[ :=]+(rcpt|data|mail)",
        r">>> (rcpt|data|mail|helo|ehlo)[^<>]*(?:<[^<>]*>)?[^<>]*<<< [45]\d\d",
        r"does not like (recipient|sender)",
        r"(rcpt) to:? ?<[^<>]*>:? ?(?:failed|error|[45]\d\d)",
    ];
    Regex::new(&format!("(?i){}", phrases.join("|"))).ok()
});
static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,128}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?").ok()
});

/// Returns the first enhanced status code that says more than `x.0.0`, or else the first one.
pub(super) fn status_in(text: &str) -> Option<String> {
    let found: Vec<&str> = captures(&STATUS, text).collect();
    let telling = found.iter().find(|status| !is_general(status));
    telling.or(found.first()).map(|status| (*status).to_owned())
}

/// Returns the status code that a server wrote after its reply code.
pub(super) fn spoken_status_in(text: &str) -> Option<String> {
    captures(&SPOKEN_STATUS, text).next().map(str::to_owned)
}

/// Returns the reply that another system quotes, or the whole text.
pub(super) fn innermost(text: &str) -> String {
    let inner = captures(&INNER_REPLY, text).last().map(|reply| reply.replacen('\'', "", 1));
    inner.unwrap_or_else(|| text.to_owned())
}

/// Returns true for codes that say only whether a failure is permanent.
pub(super) fn is_general(status: &str) -> bool {
    status.ends_with(".0.0")
}

/// Returns the first SMTP reply code of a failure.
pub(super) fn reply_code_in(text: &str) -> Option<u16> {
    captures(&REPLY, text).next()?.parse().ok()
}

/// Returns the SMTP command that a report says was refused: `connect`, `helo`, `mail`, `rcpt` or `data`.
pub(super) fn command_in(text: &str) -> Option<&'static str> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let captures = COMMAND.as_ref()?.captures(&line)?;
    let word = captures.iter().skip(1).flatten().next()?.as_str().to_ascii_lowercase();
    Some(match word.as_str() {
        "rcpt" | "recipient" => "rcpt",
        "data" | "text" => "data",
        "mail" | "sender" => "mail",
        "helo" | "ehlo" => "helo",
        _ => "connect",
    })
}

/// Returns the addresses in a text, in order, with repetitions.
pub(super) fn addresses_in(text: &str) -> Vec<&str> {
    let Some(address) = ADDRESS.as_ref() else { return Vec::new() };
    let found = address.find_iter(text).map(|found| {
        // `mailto:`, quotes and punctuation around an address are not part of it.
        let text = found.as_str();
        let text = text.rsplit_once("mailto:").map_or(text, |(_, address)| address);
        text.trim_start_matches(['\'', '=', '`', '/', '.', '*', '-', '#']).trim_end_matches(['.', '\''])
    });
    found.filter(|address| !address.starts_with('@')).take(500).collect()
}

fn captures<'t>(regex: &'static LazyLock<Option<Regex>>, text: &'t str) -> impl Iterator<Item = &'t str> {
    let matches = regex.as_ref().map(|regex| regex.captures_iter(text).take(50));
    matches.into_iter().flatten().filter_map(|captures| captures.get(1).map(|group| group.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_are_told_from_ip_addresses_and_versions() {
        assert_eq!(status_in("smtp; 550 5.1.1 <a@b.c>: unknown").as_deref(), Some("5.1.1"));
        assert_eq!(status_in("host 5.1.1.2 said (#5.7.1)").as_deref(), Some("5.7.1"));
        assert_eq!(status_in("5.0.0 (permanent) 550-5.2.1 rate").as_deref(), Some("5.2.1"));
        assert_eq!(status_in("Exim 4.92.3").as_deref(), Some("4.92.3"));
        assert_eq!(status_in("192.5.1.1 v5.1.1.").as_deref(), None);
    }

    #[test]
    fn a_quoted_reply_counts_more_than_the_words_around_it() {
        let quoted = "smtp; 5.1.0 - Unknown address error 550-'5.2.2 <a@example.com>... Mailbox Full' (attempts: 0)";
        assert_eq!(innermost(quoted), "550-5.2.2 <a@example.com>... Mailbox Full");
        assert_eq!(
            innermost("554 4.4.7 Message expired.<421 4.4.2 Connection timed out>"),
            "421 4.4.2 Connection timed out"
        );
        assert_eq!(innermost("smtp; 550 5.1.1 <a@example.com> unknown"), "smtp; 550 5.1.1 <a@example.com> unknown");
    }

    #[test]
    fn reply_codes_stand_at_the_beginning_of_a_reply() {
        assert_eq!(reply_code_in("smtp; 550 user unknown"), Some(550));
        assert_eq!(reply_code_in("said: 550-5.1.1 no such user"), Some(550));
        assert_eq!(reply_code_in("Remote host said: 554\n"), Some(554));
        assert_eq!(reply_code_in("size 552000 from 10.5.0.50"), None);
    }

    #[test]
    fn the_refused_command_is_found_in_the_words_of_several_systems() {
        for (text, command) in [
            ("550 no (in reply to\n    RCPT TO command)", Some("rcpt")),
            ("said: 550 no (in reply to end of DATA command)", Some("data")),
            ("SMTP error from remote mail server after RCPT TO:<a@example.com>:", Some("rcpt")),
            (">>> DATA\n<<< 550 5.1.1 unknown", Some("data")),
            ("... while talking to mx:\n>>> RCPT To:<a@example.com>\n<<< 550 no", Some("rcpt")),
            ("192.0.2.1 does not like recipient.\nRemote host said: 550", Some("rcpt")),
            ("550 5.1.1 User unknown [RCPT_TO]", Some("rcpt")),
            ("did not like our RCPT TO:\n550", Some("rcpt")),
            ("550 no such user", None),
        ] {
            assert_eq!(command_in(text), command, "{text}");
        }
    }

    #[test]
    fn addresses_are_found_without_what_surrounds_them() {
        assert_eq!(addresses_in("<a.b+c@example.com>: 'x@example.org'."), ["a.b+c@example.com", "x@example.org"]);
        assert_eq!(addresses_in("[mailto:a@example.com] @b"), ["a@example.com"]);
    }
}
