//! One request to a port, to check whether a server is ready.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A busy machine may be slow to respond; a server that is still starting may never respond on this connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the port accepts connections.
pub(crate) fn accepts(port: u16) -> bool {
    connect(port).is_ok()
}

/// Sends a request and returns the first bytes of the response.
pub(crate) fn request<const N: usize>(port: u16, request: &[u8]) -> io::Result<[u8; N]> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.write_all(request)?;
    let mut response = [0; N];
    stream.read_exact(&mut response)?;
    Ok(response)
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), CONNECT_TIMEOUT)
}
