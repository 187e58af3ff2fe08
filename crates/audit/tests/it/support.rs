//! A database with an audit trail, and short ways to write it, to read it and to spoil it.

use onceward_audit::{Broken, Entry, Heads, Link, MIGRATIONS, Recorded, Verified, What, page, record, verify};
use onceward_db::{Db, Scope, migrate};
use onceward_envelope::TenantId;
use onceward_testkit::TestDb;
use serde_json::json;

/// A database with the trail alone, and a handle to it.
pub async fn trail() -> (TestDb, Db) {
    let database = TestDb::empty().await;
    migrate::migrate(&database.config(), &[MIGRATIONS]).await.expect("the migrations apply");
    let mut config = database.config();
    config.pool_size = 8;
    let db = Db::connect(config).expect("the settings are valid");
    (database, db)
}

pub fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a valid tenant")
}

pub fn scope(name: &str) -> Scope {
    Scope::tenant(tenant(name))
}

/// An entry of ordinary size.
pub fn entry(number: i64) -> Entry {
    Entry::new("loan_changed")
        .object("loan", format!("loan-{number}"))
        .loan(format!("loan-{number}"))
        .old(json!({ "status": "created", "principalMinor": "100" }))
        .new_value(json!({ "status": "active", "principalMinor": "9007199254740993" }))
}

/// Records `count` entries for `name`, three to a transaction.
pub async fn record_some(db: &Db, name: &str, count: i64) {
    let numbers: Vec<i64> = (1..=count).collect();
    for numbers in numbers.chunks(3) {
        let mut tx = db.begin(scope(name)).await.expect("a connection");
        for &number in numbers {
            record(&mut tx, entry(number)).expect("a good entry");
        }
        tx.commit().await.expect("it commits");
    }
}

/// The whole chain of `name`, in its order.
pub async fn recorded(db: &Db, name: &str) -> Vec<Recorded> {
    let tx = db.begin(scope(name)).await.expect("a connection");
    page(&tx, 0, i64::MAX, 100_000).await.expect("the chain can be read")
}

pub async fn links(db: &Db, name: &str) -> Vec<Link> {
    recorded(db, name).await.into_iter().map(|entry| entry.link).collect()
}

pub async fn verified(db: &Db, name: &str, heads: &Heads) -> Verified {
    verify(db, &tenant(name), heads, |_| {}).await.expect("the chain can be read")
}

/// That the chain is whole and has `count` entries.
pub async fn assert_whole(db: &Db, name: &str, count: u64) {
    let Verified { entries, broken, .. } = verified(db, name, &Heads::default()).await;
    assert_eq!((entries, broken), (count, None));
}

/// That the first broken link of `acme` is this one.
pub async fn assert_broken(db: &Db, heads: &Heads, seq: i64, what: What) {
    let broken = verified(db, "acme", heads).await.broken.expect("it is broken");
    let expected = Broken { tenant_id: tenant("acme"), seq, what, detail: broken.detail.clone() };
    assert_eq!(broken, expected);
}

/// The heads of all chains, through the file that they are kept in.
pub async fn exported_heads(db: &Db) -> Heads {
    let mut lines = String::new();
    for tenant in onceward_audit::chains(db).await.expect("the chains") {
        let head = onceward_audit::head(db, &tenant).await.expect("it can be read").expect("it has a head");
        lines += &serde_json::to_string(&head).expect("it can be written");
        lines.push('\n');
    }
    Heads::read(lines.as_bytes()).expect("what was written can be read")
}

/// Does as somebody with all rights would: switches the guards off, changes, and switches them on again.
pub async fn tamper(database: &TestDb, sql: &str) {
    let guards = |able: &str| {
        format!("ALTER TABLE audit.entry {able} TRIGGER append_only; ALTER TABLE audit.head {able} TRIGGER kept")
    };
    let whole = format!("BEGIN; {}; {sql}; {}; COMMIT", guards("DISABLE"), guards("ENABLE ALWAYS"));
    database.owner().await.batch_execute(&whole).await.expect("the owner can do anything");
}
