//! Progress reported by messages.

use crate::payments_support::wait_until_idle;
use crate::support::LendingFixture;
use onceward::outbox;
use onceward_lending::progress::{CommandState, StatusUpdate};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_reported_progress_of_a_command_is_its_status() {
    let fixture = LendingFixture::start().await;
    let (platform, subject_id) = (&fixture.platform, Uuid::now_v7());
    let scope = platform.scope("acme");
    let story = scope.correlation_id.to_string();
    for (state, detail) in [(CommandState::Processing, Some("half of it")), (CommandState::Done, None)] {
        let mut tx = platform.db().begin(scope.clone()).await.expect("a transaction");
        let kind = "document.process.v1".to_owned();
        let update = StatusUpdate { kind, subject_id, state, detail: detail.map(str::to_owned) };
        outbox::publish(&mut tx, &update).await.expect("it fits its contract");
        tx.commit().await.expect("the commit succeeds");
    }
    wait_until_idle(&fixture).await;
    let row = fixture
        .owner
        .query_one("SELECT correlation_id, subject_id, state, detail FROM lending.command_status", &[])
        .await
        .expect("one row");
    assert_eq!((row.get::<_, String>(0), row.get::<_, Uuid>(1)), (story, subject_id));
    assert_eq!((row.get::<_, String>(2), row.get::<_, Option<String>>(3)), ("done".to_owned(), None));
}
