//! The phrases by which messages without fields are recognised: what a message is, not what a failure means.

use std::sync::LazyLock;

use regex::Regex;

/// A set of phrases, any of which may occur, without regard to case.
pub(super) struct Phrases(LazyLock<Option<Regex>>);

impl Phrases {
    /// Returns true if one of the phrases occurs. A test checks that every set is a regular expression.
    pub(super) fn occur_in(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

macro_rules! phrases {
    ($($(#[$doc:meta])* $name:ident: [$($phrase:literal),+ $(,)?];)+) => {
        $(
            $(#[$doc])*
            pub(super) static $name: Phrases =
                Phrases(LazyLock::new(|| Regex::new(concat!("(?i)", $($phrase, "|",)+ r"\z\A.")).ok()));
        )+

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn every_set_is_a_regular_expression_that_does_not_match_everything() {
                $(
                    assert!($name.0.is_some(), stringify!($name));
                    assert!(!$name.occur_in("Hello, thank you for your letter."), stringify!($name));
                )+
            }
        }
    };
}

phrases! {
    /// Lines that announce the returned mail.
    ANNOUNCEMENT: [
        r"(below|under|after) this line is (a|the) copy",
        r"(this is|here is|below is|following is) (a|the) (full |complete )?copy of (the|your)",
        r"(original|returned|unsent|undelivered|failed|your) (message|(e-?)?mail)( headers?| text)? (follows|below)",
        r"(original|returned|unsent|undelivered|failed|your) (message|(e-?)?mail)( headers?)? (is below|attached)",
        r"^\W*(the )?(original|returned|unsent|undelivered) (message|mail)( headers?)?\W*$",
        r"message (text|headers?|body|contents?) follow",
        r"(header|heading|content|beginning|text|copy)s? of (the|your) (original |returned |undelivered )?(message|mail)",
        r"copy of the (original )?message",
        r"included below",
    ];
    /// Subjects of auto-replies.
    AUTO_REPLY_SUBJECT: [
        r"out of (the )?office",
        r"auto(matic|mated)?[- ]?(reply|response|responder|answer)",
        r"^away (until|from)",
        r"on (vacation|holiday|leave)",
        r"abwesen(d|heit)",
        r"absent du bureau|absence",
        r"fuera de la oficina|respuesta autom",
    ];
    /// Subjects of reports.
    BOUNCE_SUBJECT: [
        r"undeliver|unzustellbar|nondeliverable|bounce|rejected|delayed",
        r"deliver(y|ed)? (status|fail|notif|problem|report|error|has failed)",
        r"deliver.{0,20}fail|fail(ed|ure).{0,20}(deliver|notice|notif)",
        r"return(ed|ing).{0,20}(mail|message|sender)",
        r"mail (system )?(error|fail|delivery|status report)|message status|mail not delivered",
        r"non.?(delivery|remis)|no ha podido",
        r"warning: (message|could)",
        r"could not (be )?(send|sent|deliver)|not (be )?delivered|unable to deliver|email (not|un)",
    ];
    /// Senders of reports.
    BOUNCE_SENDER: [
        r"mailer-daemon|postmaster|mail[ ._-]?(delivery|system|daemon)|<>|system administrator",
    ];
    /// Sentences with which a report begins.
    FAILURE_NOTICE: [
        r"(could ?n[o']t|cannot|can not|can't|was not|were not|not been|unable to( be)?) (be )?(deliver|sent|reach)",
        r"did not reach|undeliverable|not deliverable|returned to sender",
        r"failed (permanently|to deliver)|delivery (has )?failed|(error|failure) message below",
        r"[45]\d\d [45]\.\d{1,3}\.\d{1,3} ",
        r"nicht zugestellt|non remis|no se (pudo|ha podido) entregar",
    ];
    /// Sentences that say that a mail is only late.
    DELAY_NOTICE: [
        r"this is a warning (message )?only",
        r"will (be retried|keep trying|continue to (try|retry)|retry)|still being retried",
        r"no action is required on your part|delivery attempts will continue",
    ];
}
