//! Bytes to and from a server, each wait with a timeout and each answer with a bound.

use super::{
    reply::{MAX_LINE_BYTES, MAX_LINES, ReplyLine, SmtpReply},
    stream::SmtpStream,
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf},
    time::timeout,
};

const READ_BYTES: usize = 4096;
/// The body is written in blocks of this size, so that each has its own timeout. Most mails are one.
const BLOCK_BYTES: usize = 64 * 1024;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error("the server closed the connection")]
    Closed,
    #[error("the server did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the connection failed: {0}")]
    Io(io::ErrorKind),
    #[error("the server's answer is not SMTP: {0}")]
    Protocol(&'static str),
}

/// Why a body was not written completely.
#[derive(Debug)]
pub(super) enum BodyError {
    /// The final dot was certainly not written.
    NotHandedOver(WireError),
    /// It may have been.
    Unknown(WireError),
}

/// A connection and what was read from it ahead of time.
pub(super) struct SmtpWire {
    stream: SmtpStream,
    unread: Vec<u8>,
}

impl SmtpWire {
    pub(super) fn new(stream: SmtpStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Returns the transport. Fails if the server has sent more than it was asked for, because what it sent before
    /// TLS must not count after it.
    pub(super) fn into_stream(self) -> Result<SmtpStream, WireError> {
        if self.unread.is_empty() {
            Ok(self.stream)
        } else {
            Err(WireError::Protocol("more than one answer to STARTTLS"))
        }
    }

    pub(super) async fn write(&mut self, command: &[u8], limit: Duration) -> Result<(), WireError> {
        let writing = async {
            self.stream.write_all(command).await?;
            self.stream.flush().await
        };
        within(limit, writing).await
    }

    pub(super) async fn read_reply(&mut self, limit: Duration) -> Result<SmtpReply, WireError> {
        timeout(limit, self.read_lines()).await.unwrap_or(Err(WireError::Timeout(limit)))
    }

    async fn read_lines(&mut self) -> Result<SmtpReply, WireError> {
        let mut lines = Vec::new();
        let mut code = None;
        while lines.len() < MAX_LINES {
            let line = self.read_line().await?;
            let line = ReplyLine::parse(&line).ok_or(WireError::Protocol("a line without a code"))?;
            if *code.get_or_insert(line.code) != line.code {
                return Err(WireError::Protocol("lines with different codes"));
            }
            lines.push(line.text);
            if line.is_last {
                return Ok(SmtpReply::new(line.code, lines));
            }
        }
        Err(WireError::Protocol("more than 100 lines"))
    }

    /// Reads one line. A server that ends its lines with LF alone is understood; there is nothing to gain from
    /// rejecting its answer.
    async fn read_line(&mut self) -> Result<Vec<u8>, WireError> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=end).collect();
                line.truncate(line.trim_ascii_end().len());
                return if line.len() > MAX_LINE_BYTES { Err(LINE_TOO_LONG) } else { Ok(line) };
            }
            if self.unread.len() > MAX_LINE_BYTES {
                return Err(LINE_TOO_LONG);
            }
            let mut chunk = [0; READ_BYTES];
            match self.stream.read(&mut chunk).await {
                Ok(0) => return Err(WireError::Closed),
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error) => return Err(lost(&error)),
            }
        }
    }

    /// Writes a body that ends with the final dot. As long as the last block was not taken, the server cannot have the
    /// whole mail.
    pub(super) async fn write_body(&mut self, body: &[u8], limit: Duration) -> Result<(), BodyError> {
        let mut written = 0;
        while written < body.len() {
            let end = body.len().min(written + BLOCK_BYTES);
            match timeout(limit, self.stream.write(&body[written..end])).await {
                // A write that waits has taken nothing.
                Err(_) => return Err(BodyError::NotHandedOver(WireError::Timeout(limit))),
                Ok(Ok(count)) if count > 0 => written += count,
                Ok(failed) => {
                    let error = failed.err().map_or(WireError::Closed, |error| lost(&error));
                    // TLS may have sent some of the block before it failed; TCP has not.
                    let is_certain = end < body.len() || matches!(self.stream, SmtpStream::Plain(_));
                    return Err(if is_certain { BodyError::NotHandedOver(error) } else { BodyError::Unknown(error) });
                }
            }
        }
        within(limit, self.stream.flush()).await.map_err(BodyError::Unknown)
    }

    /// Returns whether the server has closed the connection or sent something, such as a 421, while it was not used.
    pub(super) fn is_stale(&mut self) -> bool {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let polled = Pin::new(&mut self.stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
        !self.unread.is_empty() || !matches!(polled, Poll::Pending)
    }
}

const LINE_TOO_LONG: WireError = WireError::Protocol("a line of more than 1000 bytes");

async fn within(limit: Duration, work: impl Future<Output = io::Result<()>>) -> Result<(), WireError> {
    match timeout(limit, work).await {
        Ok(done) => done.map_err(|error| lost(&error)),
        Err(_) => Err(WireError::Timeout(limit)),
    }
}

fn lost(error: &io::Error) -> WireError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => WireError::Closed,
        kind => WireError::Io(kind),
    }
}
