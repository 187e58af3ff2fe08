//! Verdicts on published messages, and their order.

use crate::{
    mock::{self, MockKafka},
    support::{
        admin, bodies, broker, by_key, create_topic, declared, events, noise, numbered_parcels, one_queue, open,
        parcel, read_without_repeats, send, server_url, take, texts, unique,
    },
};
use onceward_broker::{Broker, BrokerError, Parcel, PublishOutcome, wire};
use rdkafka::{
    admin::{AdminOptions, AlterConfig, ResourceSpecifier},
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

#[tokio::test(flavor = "multi_thread")]
async fn concurrently_published_keys_each_keep_their_order() {
    let queue = unique("keys");
    let broker = declared(&one_queue(&queue)).await;
    let publishing = async {
        let batch = |publisher: u32, first: u32| -> Vec<Parcel> {
            let keys = (0..200).filter(move |key| key % 4 == publisher);
            (first..first + 5)
                .flat_map(|n| keys.clone().map(move |key| (key, n)))
                .map(|(key, n)| parcel(&events(&queue), "a", &format!("key-{key}"), format!("{key} {n}")))
                .collect()
        };
        let publisher = |publisher| {
            let (broker, batch) = (&broker, &batch);
            async move {
                for first in (0..20).step_by(5) {
                    send(broker, batch(publisher, first)).await;
                }
            }
        };
        tokio::join!(publisher(0), publisher(1), publisher(2), publisher(3))
    };
    let reading = async {
        let (mut receiver, mut landed) = (open(&broker, &queue).await, Vec::new());
        for _ in 0..40 {
            landed.extend(bodies(&mut receiver, 100).await);
            receiver.accept().await.expect("accepted");
        }
        landed
    };
    let (_, landed) = tokio::join!(publishing, reading);
    let keys = by_key(&landed);
    assert_eq!(keys.len(), 200);
    assert!(keys.values().all(|numbers| *numbers == (0..20).collect::<Vec<_>>()), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_unicode_and_large_bodies_arrive_unchanged() {
    let queue = unique("bodies");
    let broker = declared(&one_queue(&queue)).await;
    // The mock drops what a partition holds beyond 5 MiB.
    let large = noise(if mock::shared().is_some() { 1 } else { 8 } << 20, 1);
    let sent: Vec<Parcel> = [vec![], "größe 数量 🦀 \0".into(), vec![0xff], large, vec![]]
        .into_iter()
        .map(|body| {
            let mut parcel = parcel(&events(&queue), "a", "schlüssel 🔑", body);
            parcel.headers.push("x-größe", "\0\u{202e}🦀");
            parcel
        })
        .collect();
    send(&broker, sent.clone()).await;
    let mut receiver = open(&broker, &queue).await;
    for (sent, received) in sent.iter().zip(take(&mut receiver, sent.len()).await) {
        assert!(sent.body == received.body, "{} bytes received as {} others", sent.body.len(), received.body.len());
        let sent_headers: Vec<_> =
            sent.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(received.headers, sent_headers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_refuses_its_messages_until_it_is_declared() {
    if mock::must_skip("the mock creates topics on demand") {
        return;
    }
    let (queue, absent) = (unique("here"), unique("absent"));
    let here = declared(&one_queue(&queue)).await;
    let mut parcels = numbered_parcels(&queue, 0..2);
    parcels.insert(1, parcel(&events(&absent), "a", "key", "lost"));
    parcels.push(parcel("not a/topic", "a", "key", "lost"));
    let verdicts = here.publish(parcels).await.expect("the broker responds");
    assert!(
        matches!(&verdicts[..], [PublishOutcome::Accepted, PublishOutcome::Refused(why), PublishOutcome::Accepted, PublishOutcome::Refused(_)]
            if why.contains(&events(&absent)) && why.contains("topology declare")),
        "{verdicts:?}"
    );
    assert_eq!(bodies(&mut open(&here, &queue).await, 2).await, texts(0..2));

    declared(&one_queue(&absent)).await;
    send(&here, vec![parcel(&events(&absent), "a", "key", "found")]).await;
}

/// Another program created the topic with a lower size limit, and then lowers it further unnoticed.
#[tokio::test(flavor = "multi_thread")]
async fn messages_too_large_for_their_topic_are_refused_and_the_others_keep_their_order() {
    if mock::must_skip("the mock's topics accept any size") {
        return;
    }
    let (queue, url) = (unique("narrow"), server_url().await);
    create_topic(&url, &events(&queue), 1, &[("max.message.bytes", "2000000")]).await;
    let broker = declared(&one_queue(&queue)).await;
    let with_large = |first: u32, bytes: usize| {
        let mut parcels = numbered_parcels(&queue, first..first + 300);
        for at in [100, 101, 200] {
            parcels.insert(at, parcel(&events(&queue), "a", "key", noise(bytes, at as u64)));
        }
        parcels
    };
    let refused = |verdicts: &[PublishOutcome]| -> Vec<usize> {
        let refused =
            |at: &usize| matches!(&verdicts[*at], PublishOutcome::Refused(why) if why.contains("max.message.bytes"));
        (0..verdicts.len()).filter(refused).collect()
    };
    let verdicts = broker.publish(with_large(0, 2_000_000)).await.expect("the broker responds");
    assert_eq!(refused(&verdicts), [100, 101, 200]);
    let topic = events(&queue);
    let less = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("max.message.bytes", "1100000");
    admin(&url).alter_configs([&less], &AdminOptions::new()).await.expect("the broker responds")[0]
        .as_ref()
        .expect("altered");
    let verdicts = broker.publish(with_large(300, 1_500_000)).await.expect("the broker responds");
    assert_eq!(refused(&verdicts), [100, 101, 200]);
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == PublishOutcome::Accepted).count(), 300);
    assert_eq!(read_without_repeats(&broker, &queue, "599").await, texts(0..600));
}

/// After any server error the batch is published again, and its messages still arrive in order.
#[tokio::test(flavor = "multi_thread")]
async fn publishing_again_after_a_server_error_keeps_the_order() {
    use RDKafkaRespErr::*;
    tokio::join!(
        publish_after_error(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED),
        publish_after_error(RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED),
        publish_after_error(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER),
        publish_after_error(RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION),
    );
}

async fn publish_after_error(error: RDKafkaRespErr) {
    let (mock, queue) = (tokio::task::spawn_blocking(MockKafka::start).await.expect("a cluster"), unique("error"));
    let topology = one_queue(&queue);
    mock.create_topics(&topology);
    let broker = broker(mock.url(), &topology);
    broker.declare().await.expect("the topology can be declared");
    send(&broker, numbered_parcels(&queue, 0..10)).await;
    mock.fail_next(RDKafkaApiKey::Produce, &[error]);
    let failed = broker.publish(numbered_parcels(&queue, 10..400)).await;
    assert!(matches!(failed, Err(BrokerError::Unavailable(_))), "{error:?}: {failed:?}");
    send(&broker, numbered_parcels(&queue, 10..400)).await;
    assert_eq!(read_without_repeats(&broker, &queue, "399").await, texts(0..400), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_key_arrives_without_one() {
    let queue = unique("keyless");
    let broker = declared(&one_queue(&queue)).await;
    let keyless =
        Parcel { ordering_key: None, headers: Default::default(), ..parcel(&events(&queue), "a", "", "free") };
    send(&broker, vec![keyless]).await;
    let received = take(&mut open(&broker, &queue).await, 1).await.remove(0);
    assert_eq!(received.header(wire::ORDERING_KEY), None);
    assert_eq!(received.header(wire::TOPIC), Some(format!("{}:", events(&queue)).as_str()));
}
