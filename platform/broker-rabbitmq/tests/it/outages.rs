//! Server crashes, wrong settings and leaked sockets.

use crate::support::{
    POLL, bodies, numbered_parcels, one_queue, send, server_url, short_timeouts, take, texts, try_open, unique,
    without_repeats,
};
use onceward_broker::{Address, Broker, BrokerError, PublishOutcome, Receiver};
use onceward_broker_rabbitmq::RabbitMqBroker;
use onceward_local_brokers::RabbitMq;
use onceward_testkit::{PATIENCE, eventually, private_rabbitmq};
use std::ops::Range;
use tokio::{io::AsyncReadExt, net::TcpListener, time::timeout};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_keeps_its_messages_and_clients_reconnect() {
    let server = tokio::task::spawn_blocking(private_rabbitmq).await.expect("a server");
    let queue = unique("killed");
    let broker = RabbitMqBroker::new(short_timeouts(Address::Url(server.url())), one_queue(&queue));
    broker.declare().await.expect("the topology can be declared");
    // The server persists a new quorum queue minutes later, or when it stops in order.
    let mut server = restarted(server).await;
    publish_until_accepted(&broker, &queue, 0..100).await;
    let mut reader = open_until_ready(&broker, &queue).await;
    assert_eq!(bodies(&mut *reader, 30).await, texts(0..30));
    reader.accept().await.expect("accepted");
    take(&mut *reader, 30).await;

    server.kill().expect("killed");
    let error = broker.publish(numbered_parcels(&queue, 100..200)).await.expect_err("it is dead");
    assert!(matches!(error, BrokerError::Unavailable(_)), "{error:?}");
    let error = loop {
        match reader.receive(1, POLL).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BrokerError::Unavailable(_)), "{error:?}");
    assert!(reader.accept().await.is_err(), "unaccepted messages cannot be accepted on a lost connection");
    drop(reader);

    let _server = restarted(server).await;
    publish_until_accepted(&broker, &queue, 100..200).await;
    let mut reader = open_until_ready(&broker, &queue).await;
    let mut received: Vec<String> = Vec::new();
    while received.last() != Some(&"199".to_owned()) {
        received.extend(bodies(&mut *reader, 1).await);
        reader.accept().await.expect("accepted");
    }
    // The acknowledgement of the first thirty may have been lost with the server.
    received.retain(|body| !texts(0..30).contains(body));
    assert_eq!(without_repeats(&received), texts(30..200));
}

async fn restarted(mut server: RabbitMq) -> RabbitMq {
    let restarting = move || server.restart().map(|()| server);
    tokio::task::spawn_blocking(restarting).await.expect("the task does not panic").expect("the server starts again")
}

/// Retries as the relay does; some messages may arrive more than once.
async fn publish_until_accepted(broker: &RabbitMqBroker, queue: &str, range: Range<u32>) {
    let sending = || async { broker.publish(numbered_parcels(queue, range.clone())).await.ok() };
    let verdicts = eventually("messages are accepted again", sending).await;
    assert_eq!(verdicts, vec![PublishOutcome::Accepted; range.len()]);
}

async fn open_until_ready(broker: &RabbitMqBroker, queue: &str) -> Box<dyn Receiver> {
    eventually("the queue is read again", || async { try_open(broker, queue, true).await.ok() }).await
}

#[tokio::test]
async fn credentials_are_read_for_every_connection() {
    let url = server_url().await;
    let wrong = url.replacen("://", "://nobody:correct-horse@", 1);
    let wrong = format!("{}@{}", wrong.split('@').next().unwrap(), url.rsplit('@').next().unwrap());
    let path = std::env::temp_dir().join(unique("credentials"));
    std::fs::write(&path, &wrong).expect("a file can be written");
    let queue = unique("rotated");
    let broker = RabbitMqBroker::new(short_timeouts(Address::File(path.clone())), one_queue(&queue));
    for error in [
        broker.declare().await.expect_err("the password is wrong"),
        broker.publish(numbered_parcels(&queue, 0..1)).await.expect_err("the password is wrong"),
    ] {
        assert!(matches!(error, BrokerError::Misconfigured(_)), "{error:?}");
        assert!(error.to_string().contains("rejected the user name or password"), "{error}");
        assert!(!format!("{error} {error:?}").contains("correct-horse"), "it shows the password");
    }
    std::fs::write(&path, &url).expect("a file can be written");
    broker.declare().await.expect("the password is right");
    send(&broker, numbered_parcels(&queue, 0..1)).await;
    broker.close().await;
    std::fs::write(&path, &wrong).expect("a file can be written");
    assert!(broker.ping().await.is_err(), "a new connection has new credentials");
    std::fs::remove_file(&path).expect("the file exists");
}

/// The listener accepts connections and never responds, like a proxy whose server is gone.
#[tokio::test]
async fn an_unanswered_handshake_closes_its_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("amqp://u:p@{}/%2f", listener.local_addr().expect("an address"));
    let broker = RabbitMqBroker::new(short_timeouts(Address::Url(url)), one_queue("q"));
    let (failed, accepted) = tokio::join!(broker.ping(), listener.accept());
    assert!(matches!(failed, Err(BrokerError::Unavailable(_))), "{failed:?}");
    let (mut socket, _) = accepted.expect("the client connects");
    let ended = timeout(PATIENCE, async { while socket.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {} });
    ended.await.expect("the connection is closed");
}
