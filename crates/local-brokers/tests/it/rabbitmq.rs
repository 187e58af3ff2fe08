//! RabbitMQ nodes side by side, each with a directory service that does not outlive it.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use onceward_local_brokers::{RabbitMq, RabbitMqPrograms};

use crate::amqp::Channel;
use crate::support::{Scratch, password, programs, someone_works_in, until};

fn login(server: &RabbitMq) -> Channel {
    Channel::open(server.port(), "onceward", &password(&server.url()))
}

/// The node and its epmd are gone at once; what the node itself had started ends when it sees that the node is gone.
fn nobody_is_left_in(folder: &Path) {
    until("the node's own helpers end", || !someone_works_in(folder));
}

#[test]
fn two_nodes_run_at_once_and_know_nothing_of_each_other() {
    let Some(programs) = programs::<RabbitMqPrograms>() else { return };
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| RabbitMq::temporary(&programs).unwrap());
        let other = RabbitMq::temporary(&programs).unwrap();
        (one.join().unwrap(), other)
    });
    login(&one).declare_durable("mine");
    assert!(login(&one).knows("mine"));
    assert!(!login(&other).knows("mine"));
    let folders = [one.folder().to_path_buf(), other.folder().to_path_buf()];
    drop((one, other));
    folders.iter().for_each(|folder| nobody_is_left_in(folder));
}

#[test]
fn a_durable_queue_survives_a_kill_and_a_stop() {
    let Some(programs) = programs::<RabbitMqPrograms>() else { return };
    let scratch = Scratch::new();
    let mut server = RabbitMq::start(&programs, &scratch.join("a folder, with spaces")).unwrap();
    let url = server.url();
    assert_eq!(url, format!("amqp://onceward:{}@127.0.0.1:{}/%2f", password(&url), server.port()));
    let program = fs::read_link(format!("/proc/{}/exe", server.pid().unwrap())).unwrap();
    assert!(program.ends_with("beam.smp"), "{program:?} is not the server itself");
    // RabbitMQ answers a declaration a moment before its commit is on disk; the next one takes it along.
    let mut channel = login(&server);
    channel.declare_durable("kept");
    channel.declare_durable("behind it");
    server.kill().unwrap();
    assert!(!server.is_running());
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    nobody_is_left_in(server.folder());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert!(login(&server).knows("kept"));
    server.stop().unwrap();
    nobody_is_left_in(server.folder());
    server.restart().unwrap();
    assert!(login(&server).knows("kept"));
}
