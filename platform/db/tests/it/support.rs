//! A schema with one tenant table, and helpers to read and write it.

use onceward_db::{Db, DbError, Migration, Migrations, Scope, Tx, migrate};
use onceward_envelope::TenantId;
use onceward_testkit::TestDb;

pub const MIGRATIONS: Migrations = Migrations {
    schema: "probe",
    steps: &[Migration {
        name: "0001_note",
        sql: "CREATE TABLE probe.note (
                  tenant_id text NOT NULL,
                  id        int  NOT NULL,
                  text      text NOT NULL DEFAULT '',
                  PRIMARY KEY (tenant_id, id));
              SELECT onceward_meta.protect('probe.note')",
    }],
};

/// Creates a migrated database.
pub async fn migrated() -> TestDb {
    let database = TestDb::empty().await;
    migrate::migrate(&database.config(), &[MIGRATIONS]).await.expect("the migrations apply");
    database
}

/// Returns a handle whose pool holds `pool_size` connections.
pub fn connect(database: &TestDb, pool_size: usize) -> Db {
    let mut config = database.config();
    config.pool_size = pool_size;
    Db::connect(config).expect("the settings are valid")
}

pub fn tenant(name: &str) -> Scope {
    Scope::for_tenant(TenantId::new(name).expect("a valid tenant"))
}

/// Inserts a note of the transaction's tenant.
pub async fn note(tx: &Tx, id: i32) -> Result<(), DbError> {
    let tenant = tx.tenant()?.as_str();
    tx.execute("INSERT INTO probe.note (tenant_id, id) VALUES ($1, $2)", &[&tenant, &id]).await.map(drop)
}

/// Returns the ids that a transaction of `scope` sees when it queries without a filter.
pub async fn visible(db: &Db, scope: Scope) -> Vec<i32> {
    let tx = db.begin(scope).await.expect("a connection");
    visible_ids(&tx).await
}

pub async fn visible_ids(tx: &Tx) -> Vec<i32> {
    let rows = tx.query("SELECT id FROM probe.note ORDER BY id", &[]).await.expect("the table can be read");
    rows.iter().map(|row| row.get(0)).collect()
}
