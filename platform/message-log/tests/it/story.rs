//! Finding a story in the log: by index, in full, or between two times; and keeping the log searchable.

use crate::support::{QUEUE, database_on, handle_all, open_queue};
use jiff::{SignedDuration, Timestamp};
use onceward_broker::BusKind;
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use onceward_message_log::{
    retention::{Retention, sweep},
    search_index::maintain,
    story::{SearchMethod, StoryRows, StorySearch, find, uuid_created_at},
};
use onceward_testkit::TestDb;
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

async fn search_all(db: &Db, search: &StorySearch) -> StoryRows {
    find(db, &Scope::platform("test"), search, |_| {}).await.expect("it can be searched")
}

async fn searchable_database() -> (TestDb, Db, Client) {
    let database = database_on(BusKind::Postgres).await;
    let db = Db::connect(database.config()).expect("the settings are valid");
    let owner = database.owner().await;
    (database, db, owner)
}

#[tokio::test]
async fn a_small_partition_is_searched_in_full_for_both_forms_of_an_id() {
    let (_database, db, owner) = searchable_database().await;
    publish(&owner, "acme", CORRELATION).await;
    publish(&owner, "acme", "another").await;
    owner
        .batch_execute("SELECT onceward.enqueue('acme', 'things:thing', 'thing.happened.v1', '{}')")
        .await
        .expect("an id is generated for it");
    let generated: Uuid = owner
        .query_one("SELECT correlation_uuid FROM onceward.message_log WHERE correlation_uuid IS NOT NULL", &[])
        .await
        .expect("it has one")
        .get(0);
    for correlation in [CORRELATION.to_owned(), generated.to_string()] {
        let found = search_all(&db, &StorySearch::new(correlation.clone())).await;
        assert_eq!(found.log.len(), 1, "{correlation}");
        assert_eq!(
            found.partitions.iter().map(|partition| &partition.method).collect::<Vec<_>>(),
            [&SearchMethod::Whole]
        );
        assert_eq!((found.log[0].queue.as_deref(), found.log[0].read), (Some(QUEUE), false));
    }
}

#[tokio::test]
async fn a_large_partition_is_searched_only_within_the_time_window() {
    let (_database, db, owner) = searchable_database().await;
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
        let search = StorySearch { since, within, whole_bytes: 0, ..StorySearch::new(CORRELATION) };
        let found = search_all(&db, &search).await;
        let windowed = matches!(found.partitions[0].method, SearchMethod::Between(..));
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
async fn a_closed_partition_is_indexed_by_maintenance_and_searched_by_its_index() {
    let (_database, db, owner) = searchable_database().await;
    publish(&owner, "acme", CORRELATION).await;
    assert_eq!(maintain(&db, 0).await.expect("maintenance succeeds"), None, "the open partition is left alone");
    assert!(sweep(&db, AT_ONCE).await.expect("the sweep succeeds").opened);
    assert_eq!(maintain(&db, 600).await.expect("maintenance succeeds"), None, "a writer may still be open");
    assert_eq!(maintain(&db, 0).await.expect("maintenance succeeds"), Some(1));
    assert_eq!(maintain(&db, 0).await.expect("maintenance succeeds"), None, "it is done");
    publish(&owner, "acme", CORRELATION).await;

    let found = search_all(&db, &StorySearch::new(CORRELATION)).await;
    assert_eq!(found.log.len(), 2);
    assert_eq!(
        found.partitions.iter().map(|partition| partition.method.clone()).collect::<Vec<_>>(),
        [SearchMethod::Index, SearchMethod::Whole]
    );
    let plan =
        "EXPLAIN SELECT FROM onceward.message_log_1 WHERE correlation_uuid = gen_random_uuid() OR correlation_id = 'x'";
    owner.batch_execute("SET enable_seqscan = off").await.expect("a setting");
    let plan: Vec<String> = owner.query(plan, &[]).await.expect("a plan").iter().map(|row| row.get(0)).collect();
    for index in ["message_log_1_correlation_uuid", "message_log_1_correlation_id"] {
        assert!(plan.iter().any(|line| line.contains(index)), "{index} is not used: {plan:#?}");
    }
}

#[tokio::test]
async fn a_partition_with_an_open_writer_is_indexed_later() {
    let (_database, db, owner) = searchable_database().await;
    publish(&owner, "acme", "x").await;
    owner.batch_execute("BEGIN").await.expect("begins");
    publish(&owner, "acme", CORRELATION).await;
    assert!(sweep(&db, AT_ONCE).await.expect("the sweep succeeds").opened);
    assert!(maintain(&db, 0).await.is_err(), "the writer is not waited for");
    owner.batch_execute("COMMIT").await.expect("commits");
    assert_eq!(maintain(&db, 0).await.expect("maintenance succeeds"), Some(1));
    assert_eq!(search_all(&db, &StorySearch::new(CORRELATION)).await.log.len(), 1);
}

#[tokio::test]
async fn a_tenant_sees_its_own_part_of_a_story() {
    let (_database, db, owner) = searchable_database().await;
    for tenant in ["acme", "globex"] {
        publish(&owner, tenant, CORRELATION).await;
    }
    for whole_bytes in [i64::MAX, 0] {
        let search = StorySearch {
            whole_bytes,
            since: Some(Timestamp::UNIX_EPOCH),
            within: SignedDuration::from_hours(24 * 36_500),
            ..StorySearch::new(CORRELATION)
        };
        let scope = Scope::for_tenant(TenantId::new("globex").expect("valid"));
        let found = find(&db, &scope, &search, |_| {}).await.expect("it can be searched");
        assert_eq!(found.log.iter().map(|row| row.message.tenant.as_str()).collect::<Vec<_>>(), ["globex"]);
        assert_eq!(search_all(&db, &search).await.log.len(), 2);
    }
}

#[tokio::test]
async fn a_late_message_counts_as_read_only_after_a_turn_has_searched_for_it() {
    let (database, db, owner) = searchable_database().await;
    let reader = open_queue(&database).await;
    let slow = database.owner().await;
    publish(&owner, "acme", "creates the lane").await;
    handle_all(&reader, &owner).await;
    slow.batch_execute("BEGIN").await.expect("begins");
    publish(&slow, "acme", CORRELATION).await;
    publish(&owner, "acme", "overtakes").await;
    handle_all(&reader, &owner).await;
    slow.batch_execute("COMMIT").await.expect("commits");

    let read = async || {
        search_all(&db, &StorySearch::new(CORRELATION)).await.log.iter().map(|row| row.read).collect::<Vec<_>>()
    };
    assert_eq!(read().await, [false], "the lane was read past its number, but no turn has handled it");
    handle_all(&reader, &owner).await;
    assert_eq!(read().await, [true]);
}

#[tokio::test]
async fn results_beyond_the_limit_are_reported_as_truncated() {
    let (_database, db, owner) = searchable_database().await;
    for _ in 0..3 {
        publish(&owner, "acme", CORRELATION).await;
    }
    let found = search_all(&db, &StorySearch { limit: 2, ..StorySearch::new(CORRELATION) }).await;
    assert_eq!((found.log.len(), found.is_truncated), (2, true));
}

#[test]
fn only_a_version_7_uuid_contains_its_creation_time() {
    let created = uuid_created_at(&Uuid::now_v7().to_string()).expect("a time");
    assert!(Timestamp::now().duration_since(created).abs() < SignedDuration::from_mins(1));
    assert_eq!(uuid_created_at(&Uuid::new_v4().to_string()), None);
    assert_eq!(uuid_created_at("order-17"), None);
}
