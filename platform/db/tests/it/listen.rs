//! Listening: notifications arrive, also after the connection was lost.

use crate::support::migrated;
use onceward_db::{Db, listen::ListenEvent, listen::Listener};
use onceward_testkit::{PATIENCE, TestDb};

const CHANNEL: &str = "probe_channel";

async fn next(listener: &mut Listener) -> ListenEvent {
    let heard = tokio::time::timeout(PATIENCE, listener.next()).await;
    heard.expect("an event arrives").expect("a listener never ends")
}

async fn notify(database: &TestDb, text: &str) {
    let owner = database.owner().await;
    owner.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &text]).await.expect("it notifies");
}

#[tokio::test]
async fn a_listener_reports_its_connection_and_receives_notifications() {
    let database = migrated().await;
    let db = Db::connect(database.config()).expect("valid settings");
    let mut listener = db.listen(CHANNEL);
    assert_eq!(next(&mut listener).await, ListenEvent::Connected);
    notify(&database, "one").await;
    notify(&database, "two").await;
    assert_eq!(next(&mut listener).await, ListenEvent::Notified("one".into()));
    assert_eq!(next(&mut listener).await, ListenEvent::Notified("two".into()));
}

#[tokio::test]
async fn a_listener_that_lost_its_connection_reconnects_and_reports_it() {
    let database = migrated().await;
    let db = Db::connect(database.config()).expect("valid settings");
    let mut listener = db.listen(CHANNEL);
    assert_eq!(next(&mut listener).await, ListenEvent::Connected);
    let owner = database.owner().await;
    let ended = owner
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'LISTEN%'",
            &[],
        )
        .await;
    assert_eq!(ended.expect("the owner may end it"), 1);
    assert_eq!(next(&mut listener).await, ListenEvent::Connected);
    notify(&database, "again").await;
    assert_eq!(next(&mut listener).await, ListenEvent::Notified("again".into()));
}
