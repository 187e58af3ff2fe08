//! Migrations: each is applied once, never changed, and never without row-level security.

use crate::support::MIGRATIONS;
use onceward_db::{Db, DbError, Migration, Migrations, RequiredTable, migrate, requirements};
use onceward_testkit::TestDb;
use tokio::task::JoinSet;

fn refused(result: Result<Vec<String>, DbError>) -> String {
    match result {
        Err(DbError::Migration(problem)) => problem,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn concurrent_instances_apply_each_migration_step_once() {
    let database = TestDb::empty().await;
    let mut instances = JoinSet::new();
    for _ in 0..6 {
        let config = database.config();
        instances.spawn(async move { migrate::migrate(&config, &[MIGRATIONS]).await });
    }
    let applied: Vec<String> =
        instances.join_all().await.into_iter().flat_map(|result| result.expect("every instance succeeds")).collect();
    assert_eq!(applied, ["probe/0001_note"]);
}

#[tokio::test]
async fn a_migration_step_changed_after_it_was_applied_is_refused_by_name() {
    const CHANGED: Migrations = Migrations {
        schema: "probe",
        steps: &[Migration { name: "0001_note", sql: "CREATE TABLE probe.other (id int)" }],
    };
    let database = TestDb::empty().await;
    migrate::migrate(&database.config(), &[MIGRATIONS]).await.expect("the first time");
    let problem = refused(migrate::migrate(&database.config(), &[CHANGED]).await);
    assert!(problem.contains("probe/0001_note"), "{problem}");
    assert!(problem.contains("new step"), "{problem}");
    // The refused migration released the lock, so the correct text can still be applied.
    let again = migrate::migrate(&database.config(), &[MIGRATIONS]).await;
    assert_eq!(again.expect("the lock is free"), Vec::<String>::new());
}

#[tokio::test]
async fn a_failed_migration_step_leaves_nothing_and_can_be_corrected() {
    const BROKEN: Migrations = Migrations {
        schema: "probe",
        steps: &[Migration { name: "0001_note", sql: "CREATE TABLE probe.half (id int); SELECT 1 / 0" }],
    };
    let database = TestDb::empty().await;
    let problem = refused(migrate::migrate(&database.config(), &[BROKEN]).await);
    assert!(problem.contains("division by zero"), "{problem}");
    let owner = database.owner().await;
    let half = owner.query_one("SELECT to_regclass('probe.half') IS NULL", &[]).await.expect("a row");
    assert!(half.get::<_, bool>(0), "half a step was kept");
    let applied = migrate::migrate(&database.config(), &[MIGRATIONS]).await;
    assert_eq!(applied.expect("the corrected step"), ["probe/0001_note"]);
}

#[tokio::test]
async fn a_tenant_table_without_row_level_security_is_refused_by_name() {
    const OPEN: Migrations = Migrations {
        schema: "leaky",
        steps: &[Migration {
            name: "0001_open",
            sql: "CREATE TABLE leaky.open (tenant_id text, id int);
                  CREATE TABLE leaky.shared (id int)",
        }],
    };
    let database = TestDb::empty().await;
    let problem = refused(migrate::migrate(&database.config(), &[OPEN]).await);
    assert!(problem.contains("leaky.open"), "{problem}");
    assert!(!problem.contains("leaky.shared"), "{problem}");
}

#[tokio::test]
async fn a_missing_required_column_is_reported_by_name() {
    const REQUIRED: &[RequiredTable] = &[
        RequiredTable { table: "probe.note", columns: &["tenant_id", "id", "colour"] },
        RequiredTable { table: "probe.absent", columns: &["id"] },
    ];
    let database = crate::support::migrated().await;
    let db = Db::connect(database.config()).expect("valid settings");
    let missing = requirements::missing(&db, REQUIRED).await.expect("the query succeeds");
    assert_eq!(missing, ["probe.absent.id", "probe.note.colour"]);
    let owner = database.owner().await;
    owner
        .batch_execute("ALTER TABLE probe.note ADD colour text; CREATE TABLE probe.absent (id int)")
        .await
        .expect("the owner may change tables");
    let missing = requirements::missing(&db, REQUIRED).await.expect("the query succeeds");
    assert_eq!(missing, Vec::<String>::new());
}
