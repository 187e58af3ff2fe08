//! RabbitMQ nodes side by side, each with its own epmd that ends with it.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use onceward_local_brokers::{RabbitMq, RabbitMqPrograms};

use crate::amqp::Channel;
use crate::support::{TempFolder, has_process_in, password, programs, wait_until};

fn login(server: &RabbitMq) -> Channel {
    Channel::open(server.port(), "onceward", &password(&server.url()))
}

/// The node and its epmd are gone at once; helpers that the node started end a moment later.
fn wait_for_no_process_in(folder: &Path) {
    wait_until("the node's own helpers end", || !has_process_in(folder));
}

#[test]
fn two_nodes_run_side_by_side_in_isolation() {
    let Some(programs) = programs::<RabbitMqPrograms>() else { return };
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| RabbitMq::temporary(&programs).unwrap());
        let other = RabbitMq::temporary(&programs).unwrap();
        (one.join().unwrap(), other)
    });
    login(&one).declare_durable("mine");
    assert!(login(&one).has_queue("mine"));
    assert!(!login(&other).has_queue("mine"));
    let folders = [one.folder().to_path_buf(), other.folder().to_path_buf()];
    drop((one, other));
    folders.iter().for_each(|folder| wait_for_no_process_in(folder));
}

#[test]
fn a_durable_queue_survives_a_kill_and_a_stop() {
    let Some(programs) = programs::<RabbitMqPrograms>() else { return };
    let temp = TempFolder::new();
    let mut server = RabbitMq::start(&programs, &temp.join("a folder, with spaces")).unwrap();
    let url = server.url();
    assert_eq!(url, format!("amqp://onceward:{}@127.0.0.1:{}/%2f", password(&url), server.port()));
    let program = fs::read_link(format!("/proc/{}/exe", server.pid().unwrap())).unwrap();
    assert!(program.ends_with("beam.smp"), "{program:?} is not the server itself");
    // RabbitMQ confirms a declaration a moment before its commit is on disk; the next declaration flushes it.
    let mut channel = login(&server);
    channel.declare_durable("kept");
    channel.declare_durable("behind it");
    server.kill().unwrap();
    assert!(!server.is_running());
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    wait_for_no_process_in(server.folder());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert!(login(&server).has_queue("kept"));
    server.stop().unwrap();
    wait_for_no_process_in(server.folder());
    server.restart().unwrap();
    assert!(login(&server).has_queue("kept"));
}
