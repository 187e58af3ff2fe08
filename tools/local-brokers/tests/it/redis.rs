//! Redis keeps confirmed writes.

use std::io::Write;

use onceward_local_brokers::{Redis, RedisPrograms};

use crate::support::{TempFolder, connect, password, programs, read};

/// Sends commands after a login and returns as many bytes of the reply as expected.
pub fn request(server: &Redis, commands: &str, expected: &str) -> String {
    let mut stream = connect(server.port());
    write!(stream, "AUTH {}\r\n{commands}\r\n", password(&server.url())).expect("the server reads");
    assert_eq!(read(&mut stream, 5), b"+OK\r\n");
    String::from_utf8(read(&mut stream, expected.len())).expect("text")
}

fn check(server: &Redis, commands: &str, expected: &str) {
    assert_eq!(request(server, commands, expected), expected);
}

#[test]
fn a_confirmed_write_survives_a_kill() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let temp = TempFolder::new();
    let mut server = Redis::start(&programs, &temp.join("redis")).unwrap();
    let url = server.url();
    assert_eq!(url, format!("redis://:{}@127.0.0.1:{}/", password(&url), server.port()));
    check(&server, "PING", "+PONG\r\n");
    check(&server, "SET kept 42", "+OK\r\n");
    server.kill().unwrap();
    assert!(!server.is_running());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    check(&server, "GET kept", "$2\r\n42\r\n");
}

#[test]
fn the_server_never_evicts_and_requires_the_password() {
    let Some(programs) = programs::<RedisPrograms>() else { return };
    let server = Redis::temporary(&programs).unwrap();
    check(&server, "CONFIG GET maxmemory-policy", "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n");
    let mut other = connect(server.port());
    other.write_all(b"PING\r\n").unwrap();
    assert_eq!(read(&mut other, 7), b"-NOAUTH");
}
