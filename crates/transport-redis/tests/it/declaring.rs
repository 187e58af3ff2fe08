//! Streams, groups, and what differs.

use crate::support::*;
use onceward_testkit::{private_redis, redis_url};
use onceward_transport::{Broker, BrokerError};

#[tokio::test]
async fn a_group_that_was_removed_is_made_again_and_misses_nothing() {
    let (queue, broker) = declared("regrouped").await;
    send(&broker, numbers(&queue, 0..3)).await;
    let raw = Raw::to(&redis_url()).await;
    raw.ask::<()>(&["XGROUP", "DESTROY", &stream(&queue), &queue]).await;
    let [difference] = &broker.check().await.unwrap()[..] else { panic!("one difference") };
    assert!(difference.found.contains("no such group"), "{difference:?}");
    assert!(matches!(open(&broker, &queue, true).await, Err(BrokerError::Missing(_))));
    assert_eq!(broker.declare().await.unwrap(), [format!("the readers' group of queue {queue}")]);
    assert_eq!(bodies(&mut *open(&broker, &queue, true).await.unwrap(), 3).await, texts(0..3));
}

#[tokio::test]
async fn a_second_group_is_reported() {
    let (queue, broker) = declared("grouped").await;
    assert_eq!(broker.check().await.unwrap(), []);
    Raw::to(&redis_url()).await.ask::<()>(&["XGROUP", "CREATE", &stream(&queue), "audit", "0"]).await;
    let [difference] = &broker.check().await.unwrap()[..] else { panic!("one difference") };
    assert!(difference.found.contains("audit") && difference.advice.contains("misses messages"), "{difference:?}");
}

#[tokio::test]
async fn a_key_that_is_no_stream_is_left_alone_and_reported() {
    let queue = unique("occupied");
    let broker = broker(&redis_url(), &simple(&queue));
    let raw = Raw::to(&redis_url()).await;
    raw.ask::<()>(&["SET", &stream(&queue), "theirs"]).await;
    assert!(matches!(broker.declare().await, Err(BrokerError::Misconfigured(_))));
    assert!(matches!(broker.publish(numbers(&queue, 0..1)).await, Err(BrokerError::Misconfigured(_))));
    let [difference] = &broker.check().await.unwrap()[..] else { panic!("one difference") };
    assert_eq!(difference.found, "a string");
    assert_eq!(raw.ask::<String>(&["GET", &stream(&queue)]).await, "theirs");
}

#[tokio::test]
async fn a_queue_that_is_not_there_does_not_count_as_empty() {
    let queue = unique("absent");
    let broker = broker(&redis_url(), &simple(&queue));
    assert!(matches!(broker.waiting(&queue).await, Err(BrokerError::Missing(_))));
    assert!(matches!(broker.waiting("never heard of").await, Err(BrokerError::Misconfigured(_))));
    broker.declare().await.unwrap();
    assert_eq!(broker.waiting(&queue).await.unwrap(), Some(0));
}

#[tokio::test]
async fn advice_follows_the_servers_settings() {
    let server = private_redis();
    let broker = broker(&server.url(), &simple("q"));
    assert_eq!(broker.advise().await.unwrap(), [""; 0]);
    let raw = Raw::to(&server.url()).await;
    raw.ask::<()>(&["CONFIG", "SET", "appendonly", "no", "maxmemory-policy", "allkeys-lru"]).await;
    let advice = broker.advise().await.unwrap().join("\n");
    assert!(advice.contains("appendonly yes") && advice.contains("noeviction"), "{advice}");
}

#[tokio::test]
async fn a_url_of_something_else_is_refused_without_its_password() {
    let broker = broker("http://user:hidden@localhost/", &simple("q"));
    let Err(BrokerError::Misconfigured(why)) = broker.ping().await else { panic!("it was not refused") };
    assert!(why.contains("http://localhost/") && !why.contains("hidden"), "{why}");
}
