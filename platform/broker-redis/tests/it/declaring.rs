//! Declaring and checking streams and groups.

use crate::support::*;
use onceward_broker::{Broker, BrokerError};
use onceward_testkit::{private_redis, redis_url};

#[tokio::test]
async fn a_deleted_group_is_created_again_and_misses_nothing() {
    let (queue, broker) = declared("regrouped").await;
    send(&broker, numbered_parcels(&queue, 0..3)).await;
    let client = RedisClient::connect(&redis_url()).await;
    client.command::<()>(&["XGROUP", "DESTROY", &stream(&queue), &queue]).await;
    let [difference] = &broker.check().await.unwrap()[..] else { panic!("one difference") };
    assert!(difference.found.contains("no such group"), "{difference:?}");
    assert!(matches!(open(&broker, &queue, true).await, Err(BrokerError::Missing(_))));
    assert_eq!(broker.declare().await.unwrap(), [format!("consumer group of queue {queue}")]);
    assert_eq!(bodies(&mut *open(&broker, &queue, true).await.unwrap(), 3).await, texts(0..3));
}

#[tokio::test]
async fn a_second_group_is_reported() {
    let (queue, broker) = declared("grouped").await;
    assert_eq!(broker.check().await.unwrap(), []);
    RedisClient::connect(&redis_url()).await.command::<()>(&["XGROUP", "CREATE", &stream(&queue), "audit", "0"]).await;
    let [difference] = &broker.check().await.unwrap()[..] else { panic!("one difference") };
    assert!(difference.found.contains("audit") && difference.advice.contains("misses messages"), "{difference:?}");
}

#[tokio::test]
async fn a_key_of_another_type_is_left_unchanged_and_reported() {
    let queue = unique("occupied");
    let broker = broker(&redis_url(), &one_queue(&queue));
    let client = RedisClient::connect(&redis_url()).await;
    client.command::<()>(&["SET", &stream(&queue), "theirs"]).await;
    assert!(matches!(broker.declare().await, Err(BrokerError::Misconfigured(_))));
    assert!(matches!(broker.publish(numbered_parcels(&queue, 0..1)).await, Err(BrokerError::Misconfigured(_))));
    let [difference] = &broker.check().await.unwrap()[..] else { panic!("one difference") };
    assert_eq!(difference.found, "a string");
    assert_eq!(client.command::<String>(&["GET", &stream(&queue)]).await, "theirs");
}

#[tokio::test]
async fn a_missing_queue_does_not_count_as_empty() {
    let queue = unique("absent");
    let broker = broker(&redis_url(), &one_queue(&queue));
    assert!(matches!(broker.waiting(&queue).await, Err(BrokerError::Missing(_))));
    assert!(matches!(broker.waiting("never received_by_stalled of").await, Err(BrokerError::Misconfigured(_))));
    broker.declare().await.unwrap();
    assert_eq!(broker.waiting(&queue).await.unwrap(), Some(0));
}

#[tokio::test]
async fn advice_follows_the_servers_settings() {
    let server = private_redis();
    let broker = broker(&server.url(), &one_queue("q"));
    assert_eq!(broker.advise().await.unwrap(), [""; 0]);
    let client = RedisClient::connect(&server.url()).await;
    client.command::<()>(&["CONFIG", "SET", "appendonly", "no", "maxmemory-policy", "allkeys-lru"]).await;
    let advice = broker.advise().await.unwrap().join("\n");
    assert!(advice.contains("appendonly yes") && advice.contains("noeviction"), "{advice}");
}

#[tokio::test]
async fn an_invalid_url_is_reported_without_its_password() {
    let broker = broker("http://user:hidden@localhost/", &one_queue("q"));
    let Err(BrokerError::Misconfigured(why)) = broker.ping().await else { panic!("it was not refused") };
    assert!(why.contains("http://localhost/") && !why.contains("hidden"), "{why}");
}
