//! Whether everything is through.

use tokio_postgres::Client;

const WAITING: &str = "
    SELECT queue || ' holds ' || depth FROM onceward.queue_stats(1000) WHERE depth > 0
    UNION ALL SELECT 'put aside: ' || state FROM onceward.deferred
    UNION ALL SELECT 'lane ' || w.lane_id || ' has work' FROM onceward.queue q, onceward.lanes_with_work(q.id) w";

/// Whatever still waits in the database, in words; `owner` sees every tenant.
pub async fn leftovers(owner: &Client) -> Vec<String> {
    let rows = owner.query(WAITING, &[]).await.expect("the database can be asked");
    rows.iter().map(|row| row.get(0)).collect()
}
