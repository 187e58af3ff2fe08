//! Keys and indexes of tenants' tables.

use onceward_testkit::TestPlatform;

/// Keys that may begin with the tenant: those read in a tenant's own order, small ones, and the only index of a table.
const BY_TENANT: &[&str] = &[
    "audit.entry_by_time",
    "audit.entry_pkey",
    "audit.head_pkey",
    "crm.assignment_by_user",
    "crm.contact_by_name",
    "crm.contact_by_owner",
    "crm.contact_listed",
    "crm.feedback_complaints",
    "crm.jurisdiction_rule_listed",
    "crm.sender_default",
    "crm.suppression_listed",
    "crm.template_listed",
    "lending.etl_progress_pkey",
    "lending.loan_to_service",
    "lending.open_conflict",
    "lending.unapplied_held",
    "lending.unapplied_of_tenant",
    "onceward_web.idempotency_key_pkey",
    "orders.customer_order_pkey",
    "orders.stock_pkey",
    "surveys.dash_session_ended",
    "surveys.dash_tally_minute",
    "surveys.session_due",
    "webhooks.endpoint_of_tenant",
];

/// Row-level security adds the tenant to every condition. While statistics are fresh, a planner considers any index
/// that begins with the tenant a good path to one row, and reads all rows of the tenant. So the searched column must
/// come first.
#[tokio::test]
async fn indexes_begin_with_the_searched_column_and_not_with_the_tenant() {
    let platform = TestPlatform::new(crate::support::services()).await;
    let owner = platform.database().owner().await;
    let sql = "SELECT c.relnamespace::regnamespace || '.' || c.relname
               FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
               WHERE a.attname = 'tenant_id' AND c.relnamespace::regnamespace::text NOT IN ('onceward', 'reporting')
               ORDER BY 1";
    let rows = owner.query(sql, &[]).await.expect("the catalogue can be read");
    let by_tenant: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(by_tenant, BY_TENANT);
}
