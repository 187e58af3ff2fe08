//! Keys and indexes of tenants' tables.

use onceward_testkit::TestPlatform;

/// Those that may begin with the tenant: what is read in a tenant's own order, is small, or is the only index of its table.
const BY_TENANT: &[&str] = &[
    "audit.entry_by_time",
    "audit.entry_pkey",
    "audit.head_pkey",
    "lending.etl_progress_pkey",
    "lending.loan_to_service",
    "lending.open_conflict",
    "onceward_web.idempotency_key_pkey",
    "orders.customer_order_pkey",
    "orders.stock_pkey",
    "surveys.session_due",
    "webhooks.endpoint_of_tenant",
];

/// Row-level security adds the tenant to every condition. While statistics are young a planner takes any index that begins
/// with it for a good way to one row, and reads all that the tenant has. So what is looked for comes first.
#[tokio::test]
async fn keys_begin_with_what_is_looked_for_and_not_with_the_tenant() {
    let platform = TestPlatform::new(crate::support::services()).await;
    let owner = platform.database().owner().await;
    let sql = "SELECT c.relnamespace::regnamespace || '.' || c.relname
               FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
               WHERE a.attname = 'tenant_id' AND c.relnamespace::regnamespace::text NOT IN ('onceward', 'reporting')
               ORDER BY 1";
    let rows = owner.query(sql, &[]).await.expect("the owner reads the catalogue");
    let by_tenant: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(by_tenant, BY_TENANT);
}
