//! Which tenant can read an audit trail, and who can change it.

use crate::support::{audit_database, load_chain, record_some, scope, tenant};
use onceward_audit::{EntryFilter, chains, list, page};
use onceward_db::Scope;

#[tokio::test]
async fn another_tenant_and_a_transaction_without_tenant_see_no_entries() {
    let (_database, db) = audit_database().await;
    record_some(&db, "acme", 2).await;
    record_some(&db, "globex", 1).await;
    let tx = db.begin(scope("globex")).await.expect("a connection");
    assert_eq!(page(&tx, 0, i64::MAX, 10).await.expect("its own").len(), 1);
    assert_eq!(list(&tx, &EntryFilter::default(), None, 10).await.expect("its own").len(), 1);
    for count in [
        "SELECT count(*) FROM audit.entry WHERE tenant_id = 'acme'",
        "SELECT count(*) FROM audit.head WHERE tenant_id = 'acme'",
        "SELECT count(*) FROM audit.trail WHERE tenant_id = 'acme'",
        "SELECT count(*) FROM audit.chains() WHERE tenant_id = 'acme'",
    ] {
        assert_eq!(tx.query_one(count, &[]).await.expect("a row").get::<_, i64>(0), 0, "{count}");
    }
    let platform = db.begin(Scope::platform("probe")).await.expect("a connection");
    let row = platform.query_one("SELECT count(*) FROM audit.entry", &[]).await.expect("a row");
    assert_eq!(row.get::<_, i64>(0), 0);
    assert_eq!(chains(&db).await.expect("the platform lists all chains"), [tenant("acme"), tenant("globex")]);
}

#[tokio::test]
async fn the_application_role_can_only_append() {
    let (_database, db) = audit_database().await;
    record_some(&db, "acme", 2).await;
    for statement in [
        "INSERT INTO audit.entry SELECT * FROM audit.entry",
        "UPDATE audit.entry SET actor = 'nobody'",
        "DELETE FROM audit.entry",
        "TRUNCATE audit.entry",
        "UPDATE audit.head SET seq = 7",
        "DELETE FROM audit.head",
        "SELECT audit.lock_head('acme')",
    ] {
        let tx = db.begin(scope("acme")).await.expect("a connection");
        let error = tx.execute(statement, &[]).await.expect_err(statement);
        assert_eq!(error.sql_state().map(|state| state.code()), Some("42501"), "{statement}: {error}");
    }
    assert_eq!(load_chain(&db, "acme").await.len(), 2);
}

#[tokio::test]
async fn the_owner_is_stopped_by_a_trigger_too() {
    let (database, db) = audit_database().await;
    record_some(&db, "acme", 2).await;
    let owner = database.owner().await;
    for statement in [
        "UPDATE audit.entry SET actor = 'nobody'",
        "DELETE FROM audit.entry WHERE seq = 2",
        "TRUNCATE audit.entry",
        "DELETE FROM audit.head",
        "SET session_replication_role = replica; DELETE FROM audit.entry",
    ] {
        let error = owner.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code().map(|code| code.code()), Some("OW003"), "{statement}: {error}");
    }
    assert_eq!(load_chain(&db, "acme").await.len(), 2);
}
