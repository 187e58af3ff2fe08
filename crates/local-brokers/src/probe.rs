//! One question to a port, to see whether a server serves.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A busy machine may take its time to answer; a server that is still starting may never answer this connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether anybody listens.
pub(crate) fn accepts(port: u16) -> bool {
    connect(port).is_ok()
}

/// Sends the question and returns the first bytes of the answer.
pub(crate) fn ask<const N: usize>(port: u16, question: &[u8]) -> io::Result<[u8; N]> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(question)?;
    let mut answer = [0; N];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT_TIMEOUT)
}
