//! Reads commands and messages within bounds: of a line, of a message and of the time to wait for the next byte.

use crate::feedback::{IncomingReport, ReportReader};
use std::{io, time::Duration};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// RFC 5321 allows 512 bytes, and addresses of RFC 6531 need more.
const LINE_BYTES_MAX: u64 = 2_048;
const CHUNK_BYTES: u64 = 8_192;
/// The largest message that is accepted.
pub(super) const MESSAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// RFC 5321 asks for 5 minutes between commands and 3 within a message.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);
const DATA_TIMEOUT: Duration = Duration::from_secs(180);

/// Reads a command without its line end, or `None` at the end of the connection. Fails if the line is too long.
pub(super) async fn read_command(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut bounded = reader.take(LINE_BYTES_MAX);
    tokio::time::timeout(COMMAND_TIMEOUT, bounded.read_until(b'\n', &mut line)).await??;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned())),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long or incomplete")),
    }
}

/// Reads a message up to its final dot. Returns `None` for one that is too long, after it was read.
pub(super) async fn read_message(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<IncomingReport>> {
    let mut report = ReportReader::default();
    let (mut chunk, mut bytes) = (Vec::new(), 0_u64);
    // Only CRLF ends a line: a dot after any other line end does not end the message, or a sender could smuggle commands.
    let (mut is_line_start, mut ended_with_cr) = (true, false);
    loop {
        chunk.clear();
        let mut bounded = (&mut *reader).take(CHUNK_BYTES);
        let length = tokio::time::timeout(DATA_TIMEOUT, bounded.read_until(b'\n', &mut chunk)).await??;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if is_line_start && chunk == b".\r\n" {
            break;
        }
        let content = if is_line_start { chunk.strip_prefix(b".").unwrap_or(&chunk) } else { &chunk };
        bytes += length as u64;
        if bytes <= MESSAGE_BYTES_MAX {
            report.push(content);
        } else if bytes > 2 * MESSAGE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
        }
        is_line_start = chunk.ends_with(b"\r\n") || (ended_with_cr && chunk == b"\n");
        ended_with_cr = chunk.ends_with(b"\r");
    }
    Ok((bytes <= MESSAGE_BYTES_MAX).then(|| report.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[tokio::test]
    async fn a_message_ends_with_a_dot_between_two_crlf_only() {
        let mut input = Cursor::new(b"a\r\n..b\n.\nc\r\n.\r\nQUIT\r\n".to_vec());
        let report = read_message(&mut input).await.unwrap().expect("it is short");
        let mut expected = ReportReader::default();
        expected.push(b"a\r\n.b\n.\nc\r\n");
        assert_eq!(format!("{report:?}"), format!("{:?}", expected.finish()));
        assert_eq!(read_command(&mut input).await.unwrap().as_deref(), Some("QUIT"));
        assert_eq!(read_command(&mut input).await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_incomplete_message_and_a_long_line_are_refused() {
        assert!(read_message(&mut Cursor::new(b"a\r\n.".to_vec())).await.is_err());
        assert!(read_command(&mut Cursor::new(vec![b'a'; 3_000])).await.is_err());
    }
}
