//! Generates load: clients, producers, and the limit they are compared with.

use crate::{
    server::{Bench, PlatformInstance},
    service::{BenchEvent, PublishKind},
    store,
};
use onceward::{Db, Scope, TenantId, outbox};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use uuid::Uuid;

/// The number of messages per transaction of a bulk producer.
pub(crate) const BATCH: u64 = 100;
const TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) fn scope() -> Scope {
    Scope::for_tenant(TenantId::new("bench").expect("a valid tenant"))
}

/// Runs `clients` tasks that repeat an operation for `time`. Returns the operations per second.
pub(crate) async fn rate<F, Fut>(clients: usize, time: Duration, operation: F) -> anyhow::Result<f64>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = anyhow::Result<Box<dyn Operation>>>,
{
    let mut tasks = JoinSet::new();
    let stop = Arc::new(AtomicBool::new(false));
    let mut prepared = Vec::new();
    for client in 0..clients {
        prepared.push(operation(client).await?);
    }
    let started = Instant::now();
    for mut operation in prepared {
        let stop = stop.clone();
        tasks.spawn(async move {
            let mut done = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                operation.once().await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let elapsed = started.elapsed();
    let mut done = 0;
    while let Some(task) = tasks.join_next().await {
        done += task??;
    }
    Ok(done as f64 / elapsed.as_secs_f64())
}

/// An operation that a client repeats.
pub(crate) trait Operation: Send {
    fn once(&mut self) -> std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + '_>>;
}

/// Measures the limit: durable one-row inserts per second over `clients` connections.
pub(crate) async fn one_row_inserts(bench: &Bench, clients: usize, time: Duration) -> anyhow::Result<f64> {
    rate(clients, time, async |_| {
        let client = bench.owner().await?;
        let statement = client.prepare(store::INSERT_ONE_ROW).await?;
        Ok(Box::new(OneRow { client, statement }) as Box<dyn Operation>)
    })
    .await
}

struct OneRow {
    client: tokio_postgres::Client,
    statement: tokio_postgres::Statement,
}

impl Operation for OneRow {
    fn once(&mut self) -> std::pin::Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + '_>> {
        Box::pin(async {
            self.client.execute(&self.statement, &[&Uuid::now_v7(), &"a row"]).await?;
            Ok(())
        })
    }
}

/// Publishes `count` messages over `clients` connections, `batch` per transaction.
pub(crate) async fn preload(instance: &PlatformInstance, clients: usize, count: u64, batch: u64) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(count));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (db, left) = (instance.db().clone(), left.clone());
        tasks.spawn(async move {
            loop {
                let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    (left > 0).then(|| left.saturating_sub(batch))
                });
                match taken {
                    Ok(before) => publish(&db, before.min(batch)).await?,
                    Err(_) => return anyhow::Ok(()),
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

pub(crate) async fn publish(db: &Db, count: u64) -> anyhow::Result<()> {
    let mut tx = db.begin(scope()).await?;
    for _ in 0..count {
        outbox::publish(&mut tx, &BenchEvent::new(PublishKind::Deduplicated)).await?;
    }
    Ok(tx.commit().await?)
}

/// Producers that run concurrently with the consumers. They pause when the backlog exceeds a limit.
pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<anyhow::Result<()>>,
    pub published: Arc<AtomicU64>,
}

const MAX_BACKLOG: u64 = 20_000;

impl Producers {
    pub(crate) fn start(bench: &Bench, instance: &PlatformInstance, count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let published = Arc::new(AtomicU64::new(bench.stats.handled.load(Ordering::Relaxed)));
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (db, stop, published, stats) =
                (instance.db().clone(), stop.clone(), published.clone(), bench.stats.clone());
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let backlog =
                        published.load(Ordering::Relaxed).saturating_sub(stats.handled.load(Ordering::Relaxed));
                    if backlog > MAX_BACKLOG {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        continue;
                    }
                    publish(&db, BATCH).await?;
                    published.fetch_add(BATCH, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        Self { stop, tasks, published }
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task??;
        }
        Ok(())
    }
}

/// Measures the messages handled per second during `time`.
pub(crate) async fn handled_rate(bench: &Bench, time: Duration) -> f64 {
    let (before, started) = (bench.stats.handled.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(time).await;
    let handled = bench.stats.handled.load(Ordering::Relaxed) - before;
    handled as f64 / started.elapsed().as_secs_f64()
}

/// Waits until `count` messages were handled since `before` and no lane has work left, so that all of it is committed.
pub(crate) async fn wait_until_drained(bench: &Bench, before: u64, count: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    wait_until_handled(bench, before + count).await?;
    let owner = bench.owner().await?;
    while owner.query_one(store::UNREAD_LANES, &[]).await?.get::<_, i64>(0) > 0 {
        anyhow::ensure!(Instant::now() < deadline, "the queue was not drained within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let handled = bench.stats.handled.load(Ordering::Relaxed) - before;
    anyhow::ensure!(handled == count, "{handled} messages were handled, but {count} were published");
    Ok(())
}

/// Waits until the handler has handled `target` messages in total.
pub(crate) async fn wait_until_handled(bench: &Bench, target: u64) -> anyhow::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    while bench.stats.handled.load(Ordering::Relaxed) < target {
        anyhow::ensure!(Instant::now() < deadline, "the messages were not handled within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
