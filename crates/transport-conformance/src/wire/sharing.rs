//! Several readers of one queue.

use super::{
    Lab,
    declaring::simple,
    reader::{Reader, first_times, text, texts},
    stand::{PREFETCH, Stand},
};
use onceward_transport::BrokerError;
use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant},
};

const A_MOMENT: Duration = Duration::from_millis(20);

/// The second is told that the queue is taken, or waits in vain, or (on a bus that splits queues) takes the key over: then
/// it begins with what the first has in hand.
pub async fn an_exclusive_reader_shares_no_key_and_its_successor_gets_all_it_had_in_hand(lab: &dyn Lab) {
    let first = Stand::declared(lab, simple()).await;
    let second = first.elsewhere();
    first.send(first.numbers(0..60)).await;
    let mut reader = first.reader_with("work", true, 10).await;
    assert_eq!(reader.bodies(10).await, texts(0..10));
    reader.accept().await;
    assert_eq!(reader.bodies(5).await, texts(10..15));

    let mut rival = match second.try_reader("work", true, PREFETCH).await {
        Ok(rival) => Some(rival),
        Err(BrokerError::Taken(_)) => None,
        Err(error) => panic!("it says something else: {error}"),
    };
    let mut came = Vec::new();
    if let Some(rival) = &mut rival {
        came = rival.rest().await.iter().map(|arrival| text(&arrival.body)).collect();
        assert_eq!(came, texts(10..10 + came.len() as u32), "handed out beside the first reader");
    }
    drop(reader);
    first.soon("close", first.broker.close()).await;
    let mut successor = match rival {
        Some(rival) => rival,
        None => second.reader("work").await,
    };
    let missing = texts(10 + came.len() as u32..60);
    came.extend(successor.until(&missing).await);
    assert_eq!(first_times(&came), texts(10..60));
}

/// Two processes want the queue. The one that has it reads for a while, dies with messages in hand, and comes again. What
/// both have written down, in the order in which they did, is what the database would have seen.
pub async fn a_queue_changes_hands_while_it_is_filled(lab: &dyn Lab) {
    const MESSAGES: u32 = 300;
    let publisher = Stand::declared(lab, simple()).await;
    let landed = Mutex::new(Vec::new());
    let publishing = async {
        for n in (0..MESSAGES).step_by(10) {
            publisher.send(publisher.numbers(n..n + 10)).await;
        }
    };
    let until = Instant::now() + publisher.patience();
    let reading = |stand| read_and_die(stand, &landed, MESSAGES as usize, until);
    tokio::join!(publishing, reading(publisher.elsewhere()), reading(publisher.elsewhere()));
    let landed = landed.into_inner().expect("no panic");
    assert_eq!(first_times(&landed), texts(0..MESSAGES));
}

async fn read_and_die(stand: Stand<'_>, landed: &Mutex<Vec<String>>, wanted: usize, until: Instant) {
    let count = || first_times(&landed.lock().expect("no panic")).len();
    while count() < wanted {
        assert!(Instant::now() < until, "{} of {wanted} were written down", count());
        let Ok(mut reader) = stand.try_reader("work", true, 50).await else {
            tokio::time::sleep(A_MOMENT).await;
            continue;
        };
        for _ in 0..3 {
            let batch = look(&mut reader).await;
            landed.lock().expect("no panic").extend(batch);
            let _ = reader.try_accept().await;
        }
        look(&mut reader).await;
        // Whoever gets in beside it gets what stands behind its messages.
        tokio::time::sleep(A_MOMENT).await;
    }
}

async fn look(reader: &mut Reader) -> Vec<String> {
    let batch = reader.receive(30, Duration::from_millis(300)).await.unwrap_or_default();
    batch.iter().map(|arrival| text(&arrival.body)).collect()
}

/// See the name.
pub async fn readers_that_share_a_queue_get_everything(lab: &dyn Lab) {
    let stand = Stand::declared(lab, simple()).await;
    let elsewhere = stand.elsewhere();
    let mut readers = [stand.reader_with("work", false, 20).await, elsewhere.reader_with("work", false, 20).await];
    let parcels = (0..200).map(|n: u32| stand.parcel("events", "a", &format!("key-{}", n % 10), n.to_string()));
    stand.send(parcels.collect()).await;
    let (mut came, until) = (BTreeSet::new(), Instant::now() + stand.patience());
    while came.len() < 200 {
        assert!(Instant::now() < until, "{} of 200 came", came.len());
        for reader in &mut readers {
            let batch = reader.receive(20, Duration::from_millis(200)).await.expect("the queue can be read");
            came.extend(batch.iter().map(|arrival| text(&arrival.body).parse::<u32>().expect("a number")));
            reader.accept().await;
        }
    }
    assert_eq!(came, (0..200).collect());
}
