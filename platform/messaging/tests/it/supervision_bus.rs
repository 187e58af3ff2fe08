//! Supervision of the relay and of landing.

use crate::support::{QUEUE, bare_service, count, job, one_lane, publish};
use async_trait::async_trait;
use onceward::{
    broker::{
        Arrival, Backlog, Broker, BrokerError, Capabilities, Parcel, PublishOutcome, ReceiveOptions, Receiver,
        TopologyDifference,
    },
    message_log::{MessageLog, MessageLogConfig},
    messaging::{
        landing::Landing,
        relay::{Relay, RelayConfig},
    },
};
use onceward_testkit::{TestPlatform, eventually, left_out, redis_url};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// A broker that panics on the first publish and on the first read; after that it works.
#[derive(Clone, Default)]
struct PanickingBroker {
    published: Arc<AtomicBool>,
    received: Arc<AtomicBool>,
    held: Arc<Mutex<Vec<Arrival>>>,
}

#[async_trait]
impl Broker for PanickingBroker {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            counts_deliveries: false,
            limits_deliveries: false,
            refuses_unroutable: false,
            max_body_bytes: 1 << 20,
            reports_age: true,
        }
    }

    async fn declare(&self) -> Result<Vec<String>, BrokerError> {
        Ok(Vec::new())
    }

    async fn check(&self) -> Result<Vec<TopologyDifference>, BrokerError> {
        Ok(Vec::new())
    }

    async fn publish(&self, parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
        assert!(self.published.swap(true, Ordering::AcqRel), "on purpose");
        let arrivals = parcels.iter().map(|parcel| Arrival {
            headers: parcel.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: parcel.body.clone(),
            redeliveries: 0,
        });
        self.held.lock().extend(arrivals);
        Ok(vec![PublishOutcome::Accepted; parcels.len()])
    }

    async fn open(&self, _: ReceiveOptions) -> Result<Box<dyn Receiver>, BrokerError> {
        Ok(Box::new(self.clone()))
    }

    async fn backlog(&self, _: &str) -> Result<Backlog, BrokerError> {
        Ok(Backlog::default())
    }

    async fn ping(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn advise(&self) -> Result<Vec<String>, BrokerError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

#[async_trait]
impl Receiver for PanickingBroker {
    async fn receive(&mut self, _: usize, most: Duration) -> Result<Vec<Arrival>, BrokerError> {
        assert!(self.received.swap(true, Ordering::AcqRel), "on purpose");
        let held = std::mem::take(&mut *self.held.lock());
        if held.is_empty() {
            let _ = tokio::time::timeout(most.min(Duration::from_millis(50)), std::future::pending::<()>()).await;
        }
        Ok(held)
    }

    async fn accept(&mut self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn return_unaccepted(&mut self) -> Result<(), BrokerError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_relay_and_a_landing_that_panic_are_restarted_and_reported() {
    if left_out("redis") {
        return;
    }
    let redis = tokio::task::spawn_blocking(redis_url).await.expect("Redis is available");
    let platform = TestPlatform::on_bus(vec![bare_service(one_lane())], Some(&redis)).await;
    let owner = platform.database().owner().await;
    let bus = MessageLog::new(platform.db().clone(), MessageLogConfig::default());
    let (broker, stop): (Arc<dyn Broker>, _) = (Arc::new(PanickingBroker::default()), CancellationToken::new());
    let config = RelayConfig { batch: 100, tasks: 1, attempts: 3, publish_timeout: Duration::from_secs(60) };
    let (topology, db) = (platform.platform().topology().clone(), platform.db().clone());
    let relay = tokio::spawn(Relay::new(bus.clone(), broker.clone(), topology, db, config).run(stop.clone()));
    let landing = Landing { consumer: "probe".into(), queue: QUEUE.into(), ordered: true, prefetch: 10 };
    let landing = tokio::spawn(landing.run(bus.clone(), broker, stop.clone()));
    publish(platform.db(), "acme", [job("acme", "there and back")]).await;
    let landed = "SELECT count(*) FROM onceward.message_log m JOIN onceward.lane l ON l.id = m.lane_id
                  JOIN onceward.queue q ON q.id = l.queue_id WHERE q.name = 'probe.work'";
    eventually("the message has landed", || async { (count(&owner, landed).await == 1).then_some(()) }).await;
    let failing = bus.supervisor().failing();
    let names: Vec<(&str, u64)> = failing.iter().map(|task| (task.name.as_str(), task.restarts)).collect();
    assert_eq!(names, [("landing:probe.work", 1), ("relay", 1)]);
    stop.cancel();
    relay.await.expect("it ends without a panic");
    landing.await.expect("it ends without a panic");
}
