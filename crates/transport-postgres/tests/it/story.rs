//! Finding a story in the log: by index, as a whole, or between two times; and keeping the log searchable.

use crate::database::{QUEUE, database_on, handle_all, reader};
use jiff::{SignedDuration, Timestamp};
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use onceward_testkit::TestDb;
use onceward_transport::BusKind;
use onceward_transport_postgres::{
    history::keep_searchable,
    retention::{Retention, sweep},
    story::{Found, How, Search, find, made_at},
};
use tokio_postgres::Client;
use uuid::Uuid;

const AT_ONCE: Retention = Retention { epoch_s: 0, keep_s: 3_600, inbox_s: 3_600, letters_s: 3_600 };
const CORRELATION: &str = "a client's own id";

async fn publish(owner: &Client, tenant: &str, correlation: &str) {
    let enqueue = "SELECT onceward.enqueue($1, 'things:thing', 'thing.happened.v1', '{}', p_correlation_id => $2)";
    owner.execute(enqueue, &[&tenant, &correlation]).await.expect("it is published");
}

async fn mark(owner: &Client) -> Timestamp {
    let mark = "INSERT INTO onceward.log_mark (at, seq) SELECT clock_timestamp(), last_value FROM onceward.message_seq RETURNING at";
    owner.query_one(mark, &[]).await.expect("a mark").get(0)
}

async fn look(db: &Db, search: &Search) -> Found {
    find(db, &Scope::platform("test"), search, |_| {}).await.expect("it can be searched")
}

async fn stage() -> (TestDb, Db, Client) {
    let database = database_on(BusKind::Postgres).await;
    let db = Db::connect(database.config()).expect("the settings are valid");
    let owner = database.owner().await;
    (database, db, owner)
}

#[tokio::test]
async fn a_small_partition_is_searched_as_a_whole_in_both_forms_of_an_id() {
    let (_database, db, owner) = stage().await;
    publish(&owner, "acme", CORRELATION).await;
    publish(&owner, "acme", "another").await;
    owner
        .batch_execute("SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', '{}')")
        .await
        .expect("an id is made for it");
    let made: Uuid = owner
        .query_one("SELECT correlation_uuid FROM onceward.message_log WHERE correlation_uuid IS NOT NULL", &[])
        .await
        .expect("it has one")
        .get(0);
    for correlation in [CORRELATION.to_owned(), made.to_string()] {
        let found = look(&db, &Search::new(correlation.clone())).await;
        assert_eq!(found.log.len(), 1, "{correlation}");
        assert_eq!(found.parts.iter().map(|part| &part.how).collect::<Vec<_>>(), [&How::Whole]);
        assert_eq!((found.log[0].queue.as_deref(), found.log[0].read), (Some(QUEUE), false));
    }
}

#[tokio::test]
async fn a_large_partition_is_searched_from_the_storys_beginning_for_as_long_as_asked() {
    let (_database, db, owner) = stage().await;
    publish(&owner, "acme", CORRELATION).await;
    let first = mark(&owner).await;
    publish(&owner, "acme", CORRELATION).await;
    let second = mark(&owner).await;
    publish(&owner, "acme", CORRELATION).await;
    owner
        .batch_execute(
            "UPDATE onceward.log_mark SET at = at - interval '2 hours';
             UPDATE onceward.log_mark SET at = at + interval '1 hour' WHERE seq > (SELECT min(seq) FROM onceward.log_mark)",
        )
        .await
        .expect("the marks lie apart");
    let hours = SignedDuration::from_hours;
    let numbers = async |since: Option<Timestamp>, within: SignedDuration| {
        let search = Search { since, within, whole_bytes: 0, ..Search::new(CORRELATION) };
        let found = look(&db, &search).await;
        let windowed = matches!(found.parts[0].how, How::Between(..));
        assert_eq!(windowed, since.is_some());
        found.log.iter().map(|row| row.seq).collect::<Vec<_>>()
    };
    assert_eq!(numbers(None, hours(1)).await, [1, 2, 3], "without a time there is no window");
    assert_eq!(numbers(Some(first - hours(2)), SignedDuration::from_mins(1)).await, [2]);
    assert_eq!(numbers(Some(first - hours(2)), hours(3)).await, [2, 3]);
    assert_eq!(numbers(Some(second - hours(1)), hours(1)).await, [3]);
    assert_eq!(numbers(Some(first - hours(9)), hours(24)).await, [1, 2, 3], "before the first mark everything counts");
}

#[tokio::test]
async fn a_closed_partition_gets_its_index_from_the_sweep_and_is_searched_by_it() {
    let (_database, db, owner) = stage().await;
    publish(&owner, "acme", CORRELATION).await;
    assert_eq!(keep_searchable(&db, 0).await.expect("it looks"), None, "the open partition is left alone");
    assert!(sweep(&db, AT_ONCE).await.expect("it sweeps").opened);
    assert_eq!(keep_searchable(&db, 600).await.expect("it looks"), None, "somebody may still write into it");
    assert_eq!(keep_searchable(&db, 0).await.expect("it looks"), Some(1));
    assert_eq!(keep_searchable(&db, 0).await.expect("it looks"), None, "it is done");
    publish(&owner, "acme", CORRELATION).await;

    let found = look(&db, &Search::new(CORRELATION)).await;
    assert_eq!(found.log.len(), 2);
    assert_eq!(found.parts.iter().map(|part| part.how.clone()).collect::<Vec<_>>(), [How::Index, How::Whole]);
    let plan =
        "EXPLAIN SELECT FROM onceward.message_log_1 WHERE correlation_uuid = gen_random_uuid() OR correlation_id = 'x'";
    owner.batch_execute("SET enable_seqscan = off").await.expect("a setting");
    let plan: Vec<String> = owner.query(plan, &[]).await.expect("a plan").iter().map(|row| row.get(0)).collect();
    for index in ["message_log_1_correlation_uuid", "message_log_1_correlation_id"] {
        assert!(plan.iter().any(|line| line.contains(index)), "{index} is not used: {plan:#?}");
    }
}

#[tokio::test]
async fn a_partition_that_somebody_still_writes_is_indexed_later() {
    let (_database, db, owner) = stage().await;
    publish(&owner, "acme", "x").await;
    owner.batch_execute("BEGIN").await.expect("begins");
    publish(&owner, "acme", CORRELATION).await;
    assert!(sweep(&db, AT_ONCE).await.expect("it sweeps").opened);
    assert!(keep_searchable(&db, 0).await.is_err(), "the writer is not waited for");
    owner.batch_execute("COMMIT").await.expect("commits");
    assert_eq!(keep_searchable(&db, 0).await.expect("it looks"), Some(1));
    assert_eq!(look(&db, &Search::new(CORRELATION)).await.log.len(), 1);
}

#[tokio::test]
async fn a_tenant_sees_its_own_part_of_a_story() {
    let (_database, db, owner) = stage().await;
    for tenant in ["acme", "globex"] {
        publish(&owner, tenant, CORRELATION).await;
    }
    for whole_bytes in [i64::MAX, 0] {
        let search = Search {
            whole_bytes,
            since: Some(Timestamp::UNIX_EPOCH),
            within: SignedDuration::from_hours(24 * 36_500),
            ..Search::new(CORRELATION)
        };
        let scope = Scope::tenant(TenantId::new("globex").expect("valid"));
        let found = find(&db, &scope, &search, |_| {}).await.expect("it can be searched");
        assert_eq!(found.log.iter().map(|row| row.message.tenant.as_str()).collect::<Vec<_>>(), ["globex"]);
        assert_eq!(look(&db, &search).await.log.len(), 2);
    }
}

#[tokio::test]
async fn a_late_message_counts_as_read_only_once_a_turn_has_looked_for_it() {
    let (database, db, owner) = stage().await;
    let intake = reader(&database).await;
    let slow = database.owner().await;
    publish(&owner, "acme", "makes the lane").await;
    handle_all(intake.as_ref(), &owner).await;
    slow.batch_execute("BEGIN").await.expect("begins");
    publish(&slow, "acme", CORRELATION).await;
    publish(&owner, "acme", "overtakes").await;
    handle_all(intake.as_ref(), &owner).await;
    slow.batch_execute("COMMIT").await.expect("commits");

    let read = async || look(&db, &Search::new(CORRELATION)).await.log.iter().map(|row| row.read).collect::<Vec<_>>();
    assert_eq!(read().await, [false], "the lane is past its number, and nobody has handled it");
    handle_all(intake.as_ref(), &owner).await;
    assert_eq!(read().await, [true]);
}

#[tokio::test]
async fn more_than_the_limit_is_not_read_and_said_so() {
    let (_database, db, owner) = stage().await;
    for _ in 0..3 {
        publish(&owner, "acme", CORRELATION).await;
    }
    let found = look(&db, &Search { limit: 2, ..Search::new(CORRELATION) }).await;
    assert_eq!((found.log.len(), found.cut), (2, true));
}

#[test]
fn only_a_version_7_id_tells_when_it_was_made() {
    let made = made_at(&Uuid::now_v7().to_string()).expect("a time");
    assert!(Timestamp::now().duration_since(made).abs() < SignedDuration::from_mins(1));
    assert_eq!(made_at(&Uuid::new_v4().to_string()), None);
    assert_eq!(made_at("order-17"), None);
}
