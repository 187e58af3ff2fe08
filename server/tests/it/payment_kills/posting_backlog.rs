//! How far posting is behind. The load pauses when it is too far behind: otherwise, a run would spend most of its time
//! waiting for the rest.

use super::load::PaymentCounters;
use onceward::{DbConfig, db::migrate};
use std::time::Duration;
use tokio::{sync::watch, time::interval};

const POLL_INTERVAL: Duration = Duration::from_millis(200);
const POSTED: &str = "SELECT count(*) FROM lending.payment_posting";

#[derive(Clone)]
pub struct PostingBacklog {
    posted: watch::Receiver<u64>,
    limit: u64,
}

impl PostingBacklog {
    /// Polls the database until every copy is dropped. There is room while fewer than `limit` payments are unposted.
    pub fn watch(database_url: &str, limit: u64) -> Self {
        let (sender, posted) = watch::channel(0);
        tokio::spawn(poll(DbConfig::new(database_url), sender));
        Self { posted, limit }
    }

    /// Waits until another payment may be sent.
    pub async fn wait_for_room(&self, counters: &PaymentCounters) {
        let room = |posted: &u64| counters.accepted() < posted + self.limit;
        self.posted.clone().wait_for(room).await.expect("the poller runs as long as a copy exists");
    }
}

async fn poll(config: DbConfig, sender: watch::Sender<u64>) {
    let mut pace = interval(POLL_INTERVAL);
    let mut client = None;
    while !sender.is_closed() {
        pace.tick().await;
        if client.is_none() {
            client = migrate::owner(&config).await.ok();
        }
        let Some(owner) = &client else { continue };
        match owner.query_one(POSTED, &[]).await {
            Ok(row) => drop(sender.send(row.get::<_, i64>(0).unsigned_abs())),
            Err(_) => client = None,
        }
    }
}
