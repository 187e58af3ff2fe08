//! Concurrent writers: one chain, no fork, no deadlock.

use crate::support::{assert_intact, audit_database, entry, load_chain, scope};
use onceward_audit::record;
use onceward_db::Db;
use std::collections::BTreeSet;
use tokio::task::JoinSet;

const WRITERS: i64 = 8;
const EACH: i64 = 25;

/// Every writer records `EACH` times for `tenants`, in one transaction each.
async fn write_all(db: &Db, tenants: impl Fn(i64) -> &'static [&'static str]) {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (db, tenants) = (db.clone(), tenants(writer));
        writers.spawn(async move {
            for number in 0..EACH {
                let mut tx = db.begin(scope(tenants[0])).await.expect("a connection");
                for tenant in tenants {
                    tx.enter(scope(tenant));
                    record(&mut tx, entry(writer * EACH + number)).expect("good");
                }
                tx.commit().await.expect("no deadlock prevents the commit");
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("no writer fails");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_of_one_tenant_create_one_chain_from_its_first_entry_on() {
    let (_database, db) = audit_database().await;
    write_all(&db, |_| &["acme"]).await;
    assert_intact(&db, "acme", (WRITERS * EACH) as u64).await;
    let objects: BTreeSet<_> = load_chain(&db, "acme").await.into_iter().map(|entry| entry.object_id).collect();
    assert_eq!(objects.len() as i64, WRITERS * EACH, "each entry is there once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_in_one_transaction_in_either_order_do_not_deadlock() {
    let (database, db) = audit_database().await;
    write_all(&db, |writer| if writer % 2 == 0 { &["acme", "globex"] } else { &["globex", "acme"] }).await;
    assert_intact(&db, "acme", (WRITERS * EACH) as u64).await;
    assert_intact(&db, "globex", (WRITERS * EACH) as u64).await;
    let heads = database.owner().await.query_one("SELECT count(*) FROM audit.head", &[]).await.expect("a row");
    assert_eq!(heads.get::<_, i64>(0), 2, "one head a chain");
}
