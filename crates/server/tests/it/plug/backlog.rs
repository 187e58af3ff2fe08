//! How far posting is behind. The load waits when it is too far, or the end of a run would be its longest part.

use super::load::Seen;
use onceward::{DbConfig, db::migrate};
use std::time::Duration;
use tokio::{sync::watch, time::interval};

const LOOK_EVERY: Duration = Duration::from_millis(200);
const POSTED: &str = "SELECT count(*) FROM lending.payment_posting";

#[derive(Clone)]
pub struct Backlog {
    posted: watch::Receiver<u64>,
    most: u64,
}

impl Backlog {
    /// Looks until nobody is interested any more. There is room as long as fewer than `most` are not posted.
    pub fn watch(database_url: &str, most: u64) -> Self {
        let (tell, posted) = watch::channel(0);
        tokio::spawn(look(DbConfig::new(database_url), tell));
        Self { posted, most }
    }

    pub async fn has_room(&self, seen: &Seen) {
        let room = |posted: &u64| seen.accepted() < posted + self.most;
        self.posted.clone().wait_for(room).await.expect("somebody looks for as long as this is there");
    }
}

async fn look(config: DbConfig, tell: watch::Sender<u64>) {
    let mut pace = interval(LOOK_EVERY);
    let mut client = None;
    while !tell.is_closed() {
        pace.tick().await;
        if client.is_none() {
            client = migrate::owner(&config).await.ok();
        }
        let Some(owner) = &client else { continue };
        match owner.query_one(POSTED, &[]).await {
            Ok(row) => drop(tell.send(row.get::<_, i64>(0).unsigned_abs())),
            Err(_) => client = None,
        }
    }
}
