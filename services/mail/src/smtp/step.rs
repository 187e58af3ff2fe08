//! What was said at each step, for whoever has to explain one mail.

use super::{reply::SmtpReply, reply_text::bounded, wire::WireError};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// One step of the conversation. Texts are bounded and have no addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SmtpStep {
    /// Which step.
    pub step: SmtpStepKind,
    /// The code of the answer; none if there was no answer.
    pub code: Option<u16>,
    /// The enhanced status code of the answer, such as `2.1.5`.
    pub enhanced: Option<String>,
    /// The answer, or what happened instead.
    pub text: String,
    /// How long the step took.
    pub elapsed_ms: u64,
}

/// The steps, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SmtpStepKind {
    /// A connection of the pool is used again.
    Reuse,
    /// TCP.
    Connect,
    /// The server's greeting.
    Greeting,
    /// EHLO.
    Hello,
    /// STARTTLS.
    StartTls,
    /// The TLS handshake.
    Tls,
    /// AUTH.
    Auth,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA.
    Data,
    /// Writing the body and the final dot.
    Body,
    /// The answer to the final dot.
    FinalDot,
    /// RSET.
    Reset,
}

/// Collects the steps of one send.
#[derive(Default)]
pub(super) struct StepLog(Vec<SmtpStep>);

impl StepLog {
    /// Records an answer, or why there is none.
    pub(super) fn answer(&mut self, step: SmtpStepKind, start: Instant, answer: &Result<SmtpReply, WireError>) {
        let (code, enhanced, text) = match answer {
            Ok(reply) => (Some(reply.code()), reply.enhanced(), reply.text()),
            Err(error) => (None, None, error.to_string()),
        };
        self.push(SmtpStep { step, code, enhanced, text, elapsed_ms: elapsed_ms(start) });
    }

    /// Records a step that has no answer.
    pub(super) fn event(&mut self, step: SmtpStepKind, start: Instant, text: &str) {
        self.push(SmtpStep { step, code: None, enhanced: None, text: bounded(text), elapsed_ms: elapsed_ms(start) });
    }

    fn push(&mut self, step: SmtpStep) {
        self.0.push(step);
    }

    pub(super) fn into_steps(self) -> Vec<SmtpStep> {
        self.0
    }
}

fn elapsed_ms(start: Instant) -> u64 {
    start.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
}
