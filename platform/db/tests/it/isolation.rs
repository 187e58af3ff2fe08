//! Row-level security: a query that forgets its filter sees only its own tenant.
//!
//! What is guaranteed: application connections run as a role that owns nothing, so a forgotten filter is harmless. What
//! is not: the connection's login is the owner, so untrusted SQL text could switch back to it. Statements are therefore
//! `&'static str` throughout, and untrusted input is a parameter, or quoted as the tenant and the actor are.

use crate::support::{connect, migrated, note, tenant, visible, visible_ids};
use onceward_db::{Db, DbError, Scope, migrate};
use onceward_envelope::Actor;
use onceward_testkit::TestDb;

const INSUFFICIENT_PRIVILEGE: &str = "42501";

async fn two_tenants() -> (TestDb, Db) {
    let database = migrated().await;
    let db = connect(&database, 2);
    for (name, ids) in [("acme", 1..=2), ("globex", 11..=13)] {
        let tx = db.begin(tenant(name)).await.expect("a connection");
        for id in ids {
            note(&tx, id).await.expect("a tenant writes its own rows");
        }
        tx.commit().await.expect("it commits");
    }
    (database, db)
}

fn code(error: &DbError) -> &str {
    error.sql_state().map_or("none", |state| state.code())
}

#[tokio::test]
async fn a_query_that_forgets_its_filter_sees_only_the_transactions_tenant() {
    let (_database, db) = two_tenants().await;
    assert_eq!(visible(&db, tenant("acme")).await, [1, 2]);
    assert_eq!(visible(&db, tenant("globex")).await, [11, 12, 13]);
    assert_eq!(visible(&db, tenant("nobody")).await, [0; 0]);
}

#[tokio::test]
async fn a_transaction_without_a_tenant_sees_no_rows() {
    let (_database, db) = two_tenants().await;
    assert_eq!(visible(&db, Scope::platform("probe")).await, [0; 0]);
    let connection = db.connection().await.expect("a connection");
    let rows = connection.query("SELECT id FROM probe.note", &[]).await;
    assert!(rows.expect("the table can be read").is_empty());
}

#[tokio::test]
async fn an_update_or_delete_without_a_filter_changes_only_its_own_tenants_rows() {
    let (_database, db) = two_tenants().await;
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    let updated = tx.execute("UPDATE probe.note SET text = 'mine'", &[]).await;
    assert_eq!(updated.expect("it may update"), 2);
    let foreign = tx.execute("DELETE FROM probe.note WHERE id = 11", &[]).await;
    assert_eq!(foreign.expect("it may try"), 0);
    let deleted = tx.execute("DELETE FROM probe.note", &[]).await;
    assert_eq!(deleted.expect("it may delete"), 2);
    tx.commit().await.expect("it commits");
    assert_eq!(visible(&db, tenant("globex")).await, [11, 12, 13]);
}

#[tokio::test]
async fn a_row_cannot_be_written_or_moved_to_another_tenant() {
    let (_database, db) = two_tenants().await;
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    let inserted = tx.execute("INSERT INTO probe.note (tenant_id, id) VALUES ('globex', 99)", &[]).await;
    assert_eq!(code(&inserted.expect_err("a foreign row")), INSUFFICIENT_PRIVILEGE);
    drop(tx);
    let tx = db.begin(tenant("acme")).await.expect("a connection");
    let moved = tx.execute("UPDATE probe.note SET tenant_id = 'globex' WHERE id = 1", &[]).await;
    assert_eq!(code(&moved.expect_err("a moved row")), INSUFFICIENT_PRIVILEGE);
}

#[tokio::test]
async fn the_application_role_cannot_touch_the_engines_tables() {
    let database = migrated().await;
    migrate::migrate(&database.config(), &[onceward::message_log::MIGRATIONS]).await.expect("the bus migrates");
    let db = connect(&database, 1);
    for statement in [
        "INSERT INTO onceward.message_log (seq) VALUES (1)",
        "UPDATE onceward.message_log SET payload = '{}'",
        "DELETE FROM onceward.message_log",
        "DELETE FROM onceward.message_log_1",
        "SELECT FROM onceward.message_log_1",
        "DELETE FROM onceward.dead_letters",
        "UPDATE onceward.deferred SET due_at = now()",
        "SELECT FROM onceward.lane_turn",
        "SELECT FROM onceward.message_key",
        "DELETE FROM onceward.lasting_key",
        "SELECT FROM onceward.quiet_turn FOR UPDATE",
        "DELETE FROM onceward_meta.migration",
        "ALTER TABLE probe.note DISABLE ROW LEVEL SECURITY",
        "DROP POLICY tenant_isolation ON probe.note",
    ] {
        let tx = db.begin(tenant("acme")).await.expect("a connection");
        let error = tx.query(statement, &[]).await.expect_err(statement);
        assert_eq!(code(&error), INSUFFICIENT_PRIVILEGE, "{statement}: {error}");
    }
}

#[tokio::test]
async fn an_actors_name_cannot_leave_its_quotes() {
    let (_database, db) = two_tenants().await;
    for name in [
        "x'; RESET ROLE; SET LOCAL onceward.tenant_id = 'globex'; --",
        "x\\'; RESET ROLE; --",
        "\\",
        "''",
        "$$; RESET ROLE; $$",
    ] {
        let scope = Scope { actor: Actor { user_id: Some(name.to_owned()), service: None }, ..tenant("acme") };
        let tx = db.begin(scope).await.expect("a connection");
        let row =
            tx.query_one("SELECT current_setting('onceward.actor'), current_user::text", &[]).await.expect("a row");
        assert_eq!(row.get::<_, &str>(0), name);
        assert_eq!(row.get::<_, &str>(1), onceward_db::APP_ROLE);
        assert_eq!(visible_ids(&tx).await, [1, 2]);
    }
}
