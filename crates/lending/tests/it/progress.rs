//! Progress that is told by messages.

use crate::payments_support::quiet;
use crate::support::Office;
use onceward::outbox;
use onceward_lending::progress::{Progress, StatusUpdate};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_last_of_a_command_is_its_status() {
    let office = Office::open().await;
    let (platform, subject_id) = (&office.platform, Uuid::now_v7());
    let scope = platform.scope("acme");
    let story = scope.correlation_id.to_string();
    for (state, detail) in [(Progress::Processing, Some("half of it")), (Progress::Done, None)] {
        let mut tx = platform.db().begin(scope.clone()).await.expect("a transaction");
        let kind = "document.process.v1".to_owned();
        let update = StatusUpdate { kind, subject_id, state, detail: detail.map(str::to_owned) };
        outbox::publish(&mut tx, &update).await.expect("it fits its contract");
        tx.commit().await.expect("it commits");
    }
    quiet(&office).await;
    let row = office
        .owner
        .query_one("SELECT correlation_id, subject_id, state, detail FROM lending.command_status", &[])
        .await
        .expect("one row");
    assert_eq!((row.get::<_, String>(0), row.get::<_, Uuid>(1)), (story, subject_id));
    assert_eq!((row.get::<_, String>(2), row.get::<_, Option<String>>(3)), ("done".to_owned(), None));
}
