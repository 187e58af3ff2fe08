//! One mail over an open connection.

use super::{
    SmtpStepKind, SmtpTimeouts,
    connection::{SmtpConnection, exchange},
    envelope::SmtpEnvelope,
    reply::SmtpReply,
    reply_text::{provider_id, retry_after},
    step::StepLog,
    wire::{BodyError, WireError},
};
use crate::outcome::SendOutcome;
use std::time::Instant;

/// How a transaction ended.
pub(super) enum TransactionEnd {
    /// The outcome, and whether the connection can take another mail.
    Finished { outcome: SendOutcome, is_reusable: bool },
    /// The server closed the connection before it took our first command.
    ClosedBeforeMail { reason: String },
}

/// Codes that are about our account, never about a recipient or a message.
const AUTHENTICATION_CODES: [u16; 3] = [530, 535, 538];
/// The message is too large, in answer to the size that MAIL declares.
const TOO_LARGE: u16 = 552;

/// Sends one mail. Before the final dot every failure leaves the mail with us; after it, a missing answer is unknown.
pub(super) async fn deliver(
    connection: &mut SmtpConnection,
    envelope: &SmtpEnvelope<'_>,
    timeouts: &SmtpTimeouts,
    log: &mut StepLog,
) -> TransactionEnd {
    if let Some(outcome) = envelope.refusal_by(&connection.extensions) {
        return TransactionEnd::Finished { outcome, is_reusable: true };
    }
    let mut transaction = Transaction { connection, envelope, timeouts, log };
    match transaction.run().await {
        Ok(outcome) => TransactionEnd::Finished { outcome, is_reusable: true },
        Err(Interruption::ClosedBeforeMail(reason)) => TransactionEnd::ClosedBeforeMail { reason },
        Err(Interruption::Lost(outcome)) => TransactionEnd::Finished { outcome, is_reusable: false },
        Err(Interruption::Refused(outcome)) => {
            let is_reusable = transaction.reset().await;
            TransactionEnd::Finished { outcome, is_reusable }
        }
    }
}

/// Why a transaction ended before its final answer.
enum Interruption {
    ClosedBeforeMail(String),
    /// The connection cannot be used any more.
    Lost(SendOutcome),
    /// The server refused a command; the connection can be reset.
    Refused(SendOutcome),
}

struct Transaction<'t> {
    connection: &'t mut SmtpConnection,
    envelope: &'t SmtpEnvelope<'t>,
    timeouts: &'t SmtpTimeouts,
    log: &'t mut StepLog,
}

impl Transaction<'_> {
    async fn run(&mut self) -> Result<SendOutcome, Interruption> {
        self.mail_and_rcpt().await?;
        self.data().await?;
        self.body().await?;
        self.final_dot().await
    }

    /// Sends MAIL and RCPT, in one write if the server accepts that. DATA waits for their answers, because a server
    /// that has refused the recipient may still ask for the body.
    async fn mail_and_rcpt(&mut self) -> Result<(), Interruption> {
        let (mail, rcpt) = (self.envelope.mail_command(&self.connection.extensions), self.envelope.rcpt_command());
        let wire = &mut self.connection.wire;
        let start = Instant::now();
        if self.connection.extensions.has_pipelining {
            let both = mail + &rcpt;
            let mail = exchange(wire, &both, self.timeouts.mail).await;
            self.log.answer(SmtpStepKind::Mail, start, &mail);
            if is_lost(&mail) {
                return mail_answer(mail);
            }
            // The answer to RCPT has to be read even if MAIL was refused.
            let rcpt = wire.read_reply(self.timeouts.rcpt).await;
            self.log.answer(SmtpStepKind::Rcpt, start, &rcpt);
            mail_answer(mail)?;
            return command_answer("RCPT", rcpt, SmtpReply::is_success);
        }
        let answer = exchange(wire, &mail, self.timeouts.mail).await;
        self.log.answer(SmtpStepKind::Mail, start, &answer);
        mail_answer(answer)?;
        let start = Instant::now();
        let answer = exchange(wire, &rcpt, self.timeouts.rcpt).await;
        self.log.answer(SmtpStepKind::Rcpt, start, &answer);
        command_answer("RCPT", answer, SmtpReply::is_success)
    }

    async fn data(&mut self) -> Result<(), Interruption> {
        let start = Instant::now();
        let answer = exchange(&mut self.connection.wire, "DATA\r\n", self.timeouts.data).await;
        self.log.answer(SmtpStepKind::Data, start, &answer);
        command_answer("DATA", answer, |reply| reply.code() == 354)
    }

    async fn body(&mut self) -> Result<(), Interruption> {
        let start = Instant::now();
        let written = self.connection.wire.write_body(&self.envelope.body, self.timeouts.data_block).await;
        let (text, outcome) = match written {
            Ok(()) => {
                self.log.event(SmtpStepKind::Body, start, "written with its final dot");
                return Ok(());
            }
            Err(BodyError::NotHandedOver(error)) => {
                let reason = format!("the body was not written completely: {error}");
                (reason.clone(), SendOutcome::ProviderUnavailable { reason })
            }
            Err(BodyError::Unknown(error)) => {
                let reason = format!("the connection was lost while the final dot was written: {error}");
                (reason.clone(), SendOutcome::Unknown { reason })
            }
        };
        self.log.event(SmtpStepKind::Body, start, &text);
        Err(Interruption::Lost(outcome))
    }

    async fn final_dot(&mut self) -> Result<SendOutcome, Interruption> {
        let start = Instant::now();
        let answer = self.connection.wire.read_reply(self.timeouts.final_dot).await;
        self.log.answer(SmtpStepKind::FinalDot, start, &answer);
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                let reason = format!("the answer to the final dot was not read: {error}");
                return Err(Interruption::Lost(SendOutcome::Unknown { reason }));
            }
        };
        if reply.is_success() {
            self.connection.mails += 1;
            return Ok(SendOutcome::Accepted { provider_id: provider_id(&reply.text()) });
        }
        if (300..400).contains(&reply.code()) {
            let reason = format!("the answer to the final dot was {}, which means nothing there", reply.code());
            return Err(Interruption::Lost(SendOutcome::Unknown { reason }));
        }
        let (is_closing, outcome) = (reply.is_closing(), refusal(&reply));
        // The server has ended the transaction itself.
        if is_closing { Err(Interruption::Lost(outcome)) } else { Ok(outcome) }
    }

    /// Ends the transaction. Returns whether the connection can take another.
    async fn reset(&mut self) -> bool {
        let start = Instant::now();
        let answer = exchange(&mut self.connection.wire, "RSET\r\n", self.timeouts.reset).await;
        self.log.answer(SmtpStepKind::Reset, start, &answer);
        answer.is_ok_and(|reply| reply.code() == 250)
    }
}

fn is_lost(answer: &Result<SmtpReply, WireError>) -> bool {
    answer.as_ref().map_or(true, SmtpReply::is_closing)
}

/// Judges the answer to MAIL, the first command for this mail.
fn mail_answer(answer: Result<SmtpReply, WireError>) -> Result<(), Interruption> {
    let reply = match answer {
        Ok(reply) if reply.is_success() => return Ok(()),
        Ok(reply) if reply.is_closing() => {
            return Err(Interruption::ClosedBeforeMail(format!("the server closes the connection: {}", reply.text())));
        }
        Ok(reply) => reply,
        Err(WireError::Closed) => {
            return Err(Interruption::ClosedBeforeMail("the server closed the connection before MAIL".to_owned()));
        }
        Err(error) => return Err(lost("MAIL", error)),
    };
    if reply.is_transient() || reply.code() == TOO_LARGE {
        return Err(Interruption::Refused(refusal(&reply)));
    }
    let reason = format!("MAIL was answered with {} {}", reply.code(), reply.text());
    Err(Interruption::Refused(SendOutcome::ProviderUnavailable { reason }))
}

/// Judges the answer to RCPT or DATA.
fn command_answer(
    command: &str,
    answer: Result<SmtpReply, WireError>,
    is_good: impl Fn(&SmtpReply) -> bool,
) -> Result<(), Interruption> {
    match answer {
        Ok(reply) if is_good(&reply) => Ok(()),
        Ok(reply) if reply.is_closing() => Err(Interruption::Lost(refusal(&reply))),
        Ok(reply) if reply.code() < 400 => {
            let reason = format!("{command} was answered with {}, which means nothing there", reply.code());
            Err(Interruption::Lost(SendOutcome::ProviderUnavailable { reason }))
        }
        Ok(reply) => Err(Interruption::Refused(refusal(&reply))),
        Err(error) => Err(lost(command, error)),
    }
}

fn lost(command: &str, error: WireError) -> Interruption {
    Interruption::Lost(SendOutcome::ProviderUnavailable { reason: format!("{command}: {error}") })
}

/// Returns the outcome of an answer of 400 or more.
fn refusal(reply: &SmtpReply) -> SendOutcome {
    let (code, enhanced, text) = (reply.code(), reply.enhanced(), reply.text());
    if AUTHENTICATION_CODES.contains(&code) {
        return SendOutcome::ProviderUnavailable { reason: format!("the server demands an account: {code} {text}") };
    }
    if reply.is_transient() {
        let retry_after = retry_after(&text);
        return SendOutcome::Deferred { code, enhanced, text, retry_after };
    }
    SendOutcome::Refused { code, enhanced, text }
}
