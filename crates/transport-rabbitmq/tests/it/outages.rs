//! Servers that die, settings that are wrong for a while, and what must not stay behind.

use crate::support::{
    LOOK, bodies, first_times, impatient, numbers, send, server_url, simple, take, texts, try_open, unique,
};
use onceward_local_brokers::RabbitMq;
use onceward_testkit::{PATIENCE, eventually, private_rabbitmq};
use onceward_transport::{Address, Broker, BrokerError, Receiver, Verdict};
use onceward_transport_rabbitmq::RabbitMqBroker;
use std::ops::Range;
use tokio::{io::AsyncReadExt, net::TcpListener, time::timeout};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_keeps_its_messages_and_is_found_again() {
    let server = tokio::task::spawn_blocking(private_rabbitmq).await.expect("a server");
    let queue = unique("killed");
    let broker = RabbitMqBroker::new(impatient(Address::Url(server.url())), simple(&queue));
    broker.declare().await.expect("it can be declared");
    // The server writes a new quorum queue into its directory minutes later, or when it ends in order.
    let mut server = restarted(server).await;
    send_in_spite(&broker, &queue, 0..100).await;
    let mut reader = open_in_spite(&broker, &queue).await;
    assert_eq!(bodies(&mut *reader, 30).await, texts(0..30));
    reader.accept().await.expect("accepted");
    take(&mut *reader, 30).await;

    server.kill().expect("killed");
    let error = broker.publish(numbers(&queue, 100..200)).await.expect_err("it is dead");
    assert!(matches!(error, BrokerError::Unavailable(_)), "{error:?}");
    let error = loop {
        match reader.receive(1, LOOK).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, BrokerError::Unavailable(_)), "{error:?}");
    assert!(reader.accept().await.is_err(), "what was in hand is not accepted");
    drop(reader);

    let _server = restarted(server).await;
    send_in_spite(&broker, &queue, 100..200).await;
    let mut reader = open_in_spite(&broker, &queue).await;
    let mut came: Vec<String> = Vec::new();
    while came.last() != Some(&"199".to_owned()) {
        came.extend(bodies(&mut *reader, 1).await);
        reader.accept().await.expect("accepted");
    }
    // The word that the first thirty were accepted may have died with the server.
    came.retain(|body| !texts(0..30).contains(body));
    assert_eq!(first_times(&came), texts(30..200));
}

async fn restarted(mut server: RabbitMq) -> RabbitMq {
    let restarting = move || server.restart().map(|()| server);
    tokio::task::spawn_blocking(restarting).await.expect("no panic").expect("it starts again")
}

/// As the relay does; some may arrive more than once.
async fn send_in_spite(broker: &RabbitMqBroker, queue: &str, range: Range<u32>) {
    let sending = || async { broker.publish(numbers(queue, range.clone())).await.ok() };
    let verdicts = eventually("messages are taken again", sending).await;
    assert_eq!(verdicts, vec![Verdict::Accepted; range.len()]);
}

async fn open_in_spite(broker: &RabbitMqBroker, queue: &str) -> Box<dyn Receiver> {
    eventually("the queue is read again", || async { try_open(broker, queue, true).await.ok() }).await
}

#[tokio::test]
async fn credentials_are_read_anew_for_every_connection() {
    let url = server_url().await;
    let wrong = url.replacen("://", "://nobody:correct-horse@", 1);
    let wrong = format!("{}@{}", wrong.split('@').next().unwrap(), url.rsplit('@').next().unwrap());
    let path = std::env::temp_dir().join(unique("credentials"));
    std::fs::write(&path, &wrong).expect("a file can be written");
    let queue = unique("rotated");
    let broker = RabbitMqBroker::new(impatient(Address::File(path.clone())), simple(&queue));
    for error in [
        broker.declare().await.expect_err("the password is wrong"),
        broker.publish(numbers(&queue, 0..1)).await.expect_err("the password is wrong"),
    ] {
        assert!(matches!(error, BrokerError::Misconfigured(_)), "{error:?}");
        assert!(error.to_string().contains("refuses the user or the password"), "{error}");
        assert!(!format!("{error} {error:?}").contains("correct-horse"), "it shows the password");
    }
    std::fs::write(&path, &url).expect("a file can be written");
    broker.declare().await.expect("the password is right");
    send(&broker, numbers(&queue, 0..1)).await;
    broker.close().await;
    std::fs::write(&path, &wrong).expect("a file can be written");
    assert!(broker.ping().await.is_err(), "a new connection has new credentials");
    std::fs::remove_file(&path).expect("it is there");
}

/// It accepts connections and never says a word, as a proxy does whose server is gone.
#[tokio::test]
async fn a_handshake_that_is_not_answered_leaves_nothing_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("amqp://u:p@{}/%2f", listener.local_addr().expect("an address"));
    let broker = RabbitMqBroker::new(impatient(Address::Url(url)), simple("q"));
    let (failed, accepted) = tokio::join!(broker.ping(), listener.accept());
    assert!(matches!(failed, Err(BrokerError::Unavailable(_))), "{failed:?}");
    let (mut socket, _) = accepted.expect("it connects");
    let ended = timeout(PATIENCE, async { while socket.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {} });
    ended.await.expect("the connection is closed");
}
