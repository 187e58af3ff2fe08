//! Listening: what is notified is heard, also after the connection was lost.

use crate::support::migrated;
use onceward_db::{Db, listen::Heard, listen::Listener};
use onceward_testkit::{PATIENCE, TestDb};

const CHANNEL: &str = "probe_channel";

async fn next(listener: &mut Listener) -> Heard {
    let heard = tokio::time::timeout(PATIENCE, listener.next()).await;
    heard.expect("something is heard").expect("a listener never ends")
}

async fn notify(database: &TestDb, text: &str) {
    let owner = database.owner().await;
    owner.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &text]).await.expect("it notifies");
}

#[tokio::test]
async fn a_listener_says_when_it_listens_and_hears_what_comes() {
    let database = migrated().await;
    let db = Db::connect(database.config()).expect("valid settings");
    let mut listener = db.listen(CHANNEL);
    assert_eq!(next(&mut listener).await, Heard::Connected);
    notify(&database, "one").await;
    notify(&database, "two").await;
    assert_eq!(next(&mut listener).await, Heard::Payload("one".into()));
    assert_eq!(next(&mut listener).await, Heard::Payload("two".into()));
}

#[tokio::test]
async fn a_listener_that_lost_its_connection_comes_back_and_says_so() {
    let database = migrated().await;
    let db = Db::connect(database.config()).expect("valid settings");
    let mut listener = db.listen(CHANNEL);
    assert_eq!(next(&mut listener).await, Heard::Connected);
    let owner = database.owner().await;
    let ended = owner
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'LISTEN%'",
            &[],
        )
        .await;
    assert_eq!(ended.expect("the owner may end it"), 1);
    assert_eq!(next(&mut listener).await, Heard::Connected);
    notify(&database, "again").await;
    assert_eq!(next(&mut listener).await, Heard::Payload("again".into()));
}
