//! One conversation: LHLO, then any number of messages, each MAIL, RCPT, DATA.

use super::lines::{MESSAGE_BYTES_MAX, read_command, read_message};
use crate::{
    feedback::{IncomingReport, IntakeResult, intake, is_report_address},
    state::CrmState,
};
use onceward::Db;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncWriteExt, BufStream},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

const SOURCE: &str = "lmtp";
const RECIPIENTS_MAX: usize = 50;
const COMMANDS_MAX: usize = 10_000;
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct LmtpSession {
    stream: BufStream<TcpStream>,
    state: Arc<CrmState>,
    db: Db,
    stop: CancellationToken,
    is_greeted: bool,
    has_sender: bool,
    recipients: Vec<String>,
}

impl LmtpSession {
    pub(super) fn new(connection: TcpStream, state: Arc<CrmState>, db: Db, stop: CancellationToken) -> Self {
        let stream = BufStream::new(connection);
        Self { stream, state, db, stop, is_greeted: false, has_sender: false, recipients: Vec::new() }
    }

    /// Speaks until the client quits, the process stops or a bound is exceeded.
    pub(super) async fn run(mut self) -> io::Result<()> {
        self.reply("220 onceward LMTP ready").await?;
        for _ in 0..COMMANDS_MAX {
            let command = tokio::select! {
                () = self.stop.cancelled() => return self.reply("421 4.3.2 the server is stopping").await,
                command = read_command(&mut self.stream) => command,
            };
            match command {
                Ok(None) => return Ok(()),
                Ok(Some(line)) if line.eq_ignore_ascii_case("quit") => return self.reply("221 2.0.0 bye").await,
                Ok(Some(line)) => self.handle(&line).await?,
                Err(error) => {
                    self.reply("500 5.5.2 the line is too long, or nothing was sent for too long").await?;
                    return Err(error);
                }
            }
        }
        self.reply("421 4.7.0 too many commands on one connection").await
    }

    async fn handle(&mut self, line: &str) -> io::Result<()> {
        let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "LHLO" => {
                self.is_greeted = true;
                self.reset();
                let size = format!("250 SIZE {MESSAGE_BYTES_MAX}");
                self.reply("250-onceward\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-ENHANCEDSTATUSCODES")
                    .await?;
                self.reply(&size).await
            }
            "HELO" | "EHLO" => self.reply("500 5.5.1 this is LMTP: send LHLO").await,
            "NOOP" => self.reply("250 2.0.0 ok").await,
            "RSET" => {
                self.reset();
                self.reply("250 2.0.0 ok").await
            }
            "MAIL" if !self.is_greeted => self.reply("503 5.5.1 send LHLO first").await,
            "MAIL" => {
                self.reset();
                self.has_sender = path(argument, "FROM:").is_some();
                let ok = self.has_sender;
                self.reply(if ok { "250 2.1.0 ok" } else { "501 5.5.4 send MAIL FROM:<address>" }).await
            }
            "RCPT" => self.recipient(argument).await,
            "DATA" if self.recipients.is_empty() => self.reply("503 5.5.1 no valid recipients").await,
            "DATA" => self.message().await,
            "VRFY" => self.reply("252 2.5.2 send some mail").await,
            _ => self.reply("500 5.5.1 the command is not known").await,
        }
    }

    async fn recipient(&mut self, argument: &str) -> io::Result<()> {
        let reply = match path(argument, "TO:") {
            _ if !self.has_sender => "503 5.5.1 send MAIL first",
            None => "501 5.5.4 send RCPT TO:<address>",
            Some(_) if self.recipients.len() >= RECIPIENTS_MAX => "452 4.5.3 too many recipients",
            Some(address) if is_report_address(&self.state.keys, address) => {
                self.recipients.push(address.to_owned());
                "250 2.1.5 ok"
            }
            Some(_) => "550 5.1.1 no such return path",
        };
        self.reply(reply).await
    }

    /// Reads a message and answers each recipient, after the commit.
    async fn message(&mut self) -> io::Result<()> {
        self.reply("354 end with <CRLF>.<CRLF>").await?;
        let report = read_message(&mut self.stream).await?;
        for address in std::mem::take(&mut self.recipients) {
            let reply = match &report {
                None => "552 5.3.4 the message is too long",
                Some(report) => self.record(report, &address).await,
            };
            self.reply(reply).await?;
        }
        self.reset();
        Ok(())
    }

    async fn record(&self, report: &IncomingReport, address: &str) -> &'static str {
        match intake(&self.state, &self.db, SOURCE, report, Some(address)).await {
            Ok(IntakeResult::Recorded) => "250 2.6.0 recorded",
            Ok(IntakeResult::Duplicate) => "250 2.6.0 recorded before",
            Ok(IntakeResult::Ignored(_)) => "250 2.6.0 no report about a mail of ours",
            Err(error) => {
                tracing::warn!(%error, "a returned mail could not be recorded; the mail server sends it again");
                "451 4.3.0 not recorded: try again later"
            }
        }
    }

    fn reset(&mut self) {
        self.has_sender = false;
        self.recipients.clear();
    }

    async fn reply(&mut self, text: &str) -> io::Result<()> {
        let write = async {
            self.stream.write_all(text.as_bytes()).await?;
            self.stream.write_all(b"\r\n").await?;
            self.stream.flush().await
        };
        tokio::time::timeout(WRITE_TIMEOUT, write).await?
    }
}

/// Returns the address of `FROM:<address> PARAMETERS`. It may be empty.
fn path<'l>(argument: &'l str, keyword: &str) -> Option<&'l str> {
    let (name, rest) = argument.split_at_checked(keyword.len())?;
    let rest = rest.trim_start().strip_prefix('<').filter(|_| name.eq_ignore_ascii_case(keyword))?;
    Some(&rest[..rest.find('>')?])
}
