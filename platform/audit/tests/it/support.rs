//! A database with an audit trail, and helpers to write it, read it and tamper with it.

use onceward_audit::{
    BrokenLink, BrokenLinkKind, ChainLink, ChainVerification, Entry, ExportedHeads, MIGRATIONS, RecordedEntry, page,
    record, verify,
};
use onceward_db::{Db, Scope, migrate};
use onceward_envelope::TenantId;
use onceward_testkit::TestDb;
use serde_json::json;

/// Creates a database that contains only the audit trail, and a handle to it.
pub async fn audit_database() -> (TestDb, Db) {
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
    Scope::for_tenant(tenant(name))
}

/// Creates an entry of ordinary size.
pub fn entry(number: i64) -> Entry {
    Entry::new("loan_changed")
        .object("loan", format!("loan-{number}"))
        .loan(format!("loan-{number}"))
        .old(json!({ "status": "created", "principalMinor": "100" }))
        .new_value(json!({ "status": "active", "principalMinor": "9007199254740993" }))
}

/// Records `count` entries for `name`, three per transaction.
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

/// Returns the whole chain of `name`, in order.
pub async fn load_chain(db: &Db, name: &str) -> Vec<RecordedEntry> {
    let tx = db.begin(scope(name)).await.expect("a connection");
    page(&tx, 0, i64::MAX, 100_000).await.expect("the chain can be read")
}

pub async fn links(db: &Db, name: &str) -> Vec<ChainLink> {
    load_chain(db, name).await.into_iter().map(|entry| entry.link).collect()
}

pub async fn verified(db: &Db, name: &str, heads: &ExportedHeads) -> ChainVerification {
    verify(db, &tenant(name), heads, |_| {}).await.expect("the chain can be read")
}

/// Asserts that the chain is intact and has `count` entries.
pub async fn assert_intact(db: &Db, name: &str, count: u64) {
    let ChainVerification { entries, broken, .. } = verified(db, name, &ExportedHeads::default()).await;
    assert_eq!((entries, broken), (count, None));
}

/// Asserts that the first broken link of `acme` is this one.
pub async fn assert_broken(db: &Db, heads: &ExportedHeads, seq: i64, what: BrokenLinkKind) {
    let broken = verified(db, "acme", heads).await.broken.expect("it is broken");
    let expected = BrokenLink { tenant_id: tenant("acme"), seq, what, detail: broken.detail.clone() };
    assert_eq!(broken, expected);
}

/// Returns the heads of all chains, written to and read from their file format.
pub async fn exported_heads(db: &Db) -> ExportedHeads {
    let mut lines = String::new();
    for tenant in onceward_audit::chains(db).await.expect("the chains") {
        let head = onceward_audit::head(db, &tenant).await.expect("it can be read").expect("it has a head");
        lines += &serde_json::to_string(&head).expect("it can be written");
        lines.push('\n');
    }
    ExportedHeads::read(lines.as_bytes()).expect("what was written can be read")
}

/// Acts like someone with all privileges: disables the triggers, runs `sql`, and enables them again.
pub async fn tamper(database: &TestDb, sql: &str) {
    let guards = |able: &str| {
        format!("ALTER TABLE audit.entry {able} TRIGGER append_only; ALTER TABLE audit.head {able} TRIGGER kept")
    };
    let whole = format!("BEGIN; {}; {sql}; {}; COMMIT", guards("DISABLE"), guards("ENABLE ALWAYS"));
    database.owner().await.batch_execute(&whole).await.expect("the owner can do anything");
}
