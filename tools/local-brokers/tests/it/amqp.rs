//! The part of AMQP 0-9-1 that is needed to log in and declare a queue.

use std::io::Write;
use std::net::TcpStream;

use crate::support::{connect, read};

type Method = (u16, u16);

const FRAME_END: u8 = 0xce;
const START: Method = (10, 10);
const START_OK: Method = (10, 11);
const TUNE: Method = (10, 30);
const TUNE_OK: Method = (10, 31);
const OPEN: Method = (10, 40);
const OPEN_OK: Method = (10, 41);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);
const QUEUE_DECLARE: Method = (50, 10);
const QUEUE_DECLARE_OK: Method = (50, 11);
const PASSIVE: u8 = 1;
const DURABLE: u8 = 2;

/// A channel of an authenticated connection.
pub struct Channel(TcpStream);

impl Channel {
    pub fn open(port: u16, user: &str, password: &str) -> Channel {
        let mut channel = Channel(connect(port));
        channel.0.write_all(b"AMQP\x00\x00\x09\x01").expect("the server reads");
        channel.expect(START);
        let login = format!("\0{user}\0{password}");
        channel.send(0, START_OK, &[&[0; 4], &short("PLAIN")[..], &long(&login), &short("en_US")]);
        channel.expect(TUNE);
        // 1 channel, frames of 128 KiB, no heartbeat.
        channel.send(0, TUNE_OK, &[&[0, 1, 0, 2, 0, 0, 0, 0]]);
        channel.send(0, OPEN, &[&short("/")[..], &[0, 0]]);
        channel.expect(OPEN_OK);
        channel.send(1, CHANNEL_OPEN, &[&[0]]);
        channel.expect(CHANNEL_OPEN_OK);
        channel
    }

    pub fn declare_durable(&mut self, queue: &str) {
        self.declare(queue, DURABLE);
        self.expect(QUEUE_DECLARE_OK);
    }

    pub fn has_queue(&mut self, queue: &str) -> bool {
        self.declare(queue, PASSIVE);
        self.receive() == QUEUE_DECLARE_OK
    }

    fn declare(&mut self, queue: &str, bits: u8) {
        self.send(1, QUEUE_DECLARE, &[&[0, 0], &short(queue)[..], &[bits], &[0; 4]]);
    }

    fn send(&mut self, channel: u16, method: Method, arguments: &[&[u8]]) {
        let payload = [&method.0.to_be_bytes()[..], &method.1.to_be_bytes(), &arguments.concat()].concat();
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let frame = [&[1][..], &channel.to_be_bytes(), &length, &payload, &[FRAME_END]].concat();
        self.0.write_all(&frame).expect("the server reads");
    }

    fn expect(&mut self, method: Method) {
        assert_eq!(self.receive(), method);
    }

    fn receive(&mut self) -> Method {
        let header = read(&mut self.0, 7);
        assert_eq!(header[0], 1, "a method frame");
        let length = u32::from_be_bytes([header[3], header[4], header[5], header[6]]);
        let payload = read(&mut self.0, usize::try_from(length).expect("short") + 1);
        (u16::from_be_bytes([payload[0], payload[1]]), u16::from_be_bytes([payload[2], payload[3]]))
    }
}

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).expect("short")][..], text.as_bytes()].concat()
}

fn long(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).expect("short").to_be_bytes()[..], text.as_bytes()].concat()
}
