//! What an adoption adds, and what it refuses.

use crate::support::{LegacyFixture, TENANT, mapping, without_pauses};
use onceward::TenantId;
use onceward_adoption::{AdoptionError, AdoptionOptions, LegacyMapping, StepState, plan, run};
use onceward_testkit::TestDb;

#[tokio::test]
async fn tenants_keys_and_references_are_added() {
    let legacy = LegacyFixture::new().await;
    legacy
        .execute("INSERT INTO borrowers (name) VALUES ('Ada'); INSERT INTO loans (borrower_id, amount) VALUES (1, 1)")
        .await;
    legacy.run().await;
    assert_eq!(legacy.query_value::<String>("SELECT tenant_id FROM borrower_entities", &[]).await, TENANT);
    legacy.execute("INSERT INTO borrowers (name) VALUES ('Grace')").await;
    assert_eq!(
        legacy.query_value::<i64>("SELECT count(*) FROM borrower_entities WHERE tenant_id = 'acme'", &[]).await,
        2
    );
    let constraints = "SELECT string_agg(conname || CASE WHEN convalidated THEN '' ELSE ' not valid' END, ',' ORDER BY conname)
                       FROM pg_constraint WHERE conname LIKE '%\\_tenant\\_%' AND connamespace = 'public'::regnamespace";
    // The legacy schema has no foreign key on payments, so none is added.
    let expected = "borrower_entities_tenant_key,loans_tenant_key,loans_tenant_reference,payments_tenant_key";
    assert_eq!(legacy.query_value::<String>(constraints, &[]).await, expected);
    legacy.execute("INSERT INTO payments (loan_id, amount) VALUES (99, 1)").await;
    let options = AdoptionOptions { enforce: true, ..without_pauses() };
    // Not while a row refers to a missing row.
    legacy.try_run(&options).await.expect("the run succeeds");
    assert_eq!(legacy.query_value::<String>(constraints, &[]).await, expected);
    assert_eq!(legacy.findings().await, ["payments 1 loan_id 99: refers to a row that does not exist"]);
    legacy.execute("UPDATE payments SET loan_id = 1").await;
    assert_eq!(legacy.try_run(&options).await.expect("the run succeeds"), 0);
    assert_eq!(legacy.query_value::<String>(constraints, &[]).await, format!("{expected},payments_tenant_reference"));
    let foreign = "UPDATE borrower_entities SET tenant_id = 'globex' WHERE id = 1";
    assert!(legacy.client.batch_execute(foreign).await.is_err(), "its loan belongs to acme");
}

#[tokio::test]
async fn a_plan_changes_nothing_and_shows_what_is_done() {
    let legacy = LegacyFixture::new().await;
    let config = legacy.platform.database().config();
    let before = plan(&config, &mapping()).await.expect("a plan");
    assert!(before.iter().all(|step| step.state == StepState::Pending));
    assert!(!legacy.query_value::<bool>("SELECT to_regclass('adoption.shape') IS NOT NULL", &[]).await);
    legacy.run().await;
    let after = plan(&config, &mapping()).await.expect("a plan");
    let not_done: Vec<&str> =
        after.iter().filter(|step| step.state != StepState::Done).map(|step| step.name.as_str()).collect();
    assert_eq!(not_done, ["tenant reference of payments"]);
}

#[tokio::test]
async fn unsuitable_databases_are_refused_before_anything_is_changed() {
    let empty = TestDb::empty().await;
    let refused =
        run(&empty.config(), &mapping(), &without_pauses(), |_| {}).await.expect_err("there is nothing to adopt");
    assert!(refused.to_string().contains("public.loans.amount as double precision"), "{refused}");
    let legacy = LegacyFixture::new().await;
    let config = legacy.platform.database().config();
    legacy.execute("ALTER TABLE loans ALTER COLUMN amount TYPE numeric").await;
    let refused = plan(&config, &mapping()).await.expect_err("it is numeric");
    assert!(refused.to_string().contains("not numeric"), "{refused}");
    legacy.execute("ALTER TABLE loans ALTER COLUMN amount TYPE double precision").await;
    let tenant = || TenantId::new("acme").expect("a tenant");
    let elsewhere = LegacyMapping::new("public", tenant(), Some("nowhere")).expect("a mapping");
    assert!(plan(&config, &elsewhere).await.expect_err("no exchange").to_string().contains("nowhere"));
    assert!(matches!(LegacyMapping::new("pub\"lic", tenant(), None), Err(AdoptionError::Refused(_))));
    legacy.run().await;
    let other =
        LegacyMapping::new("public", TenantId::new("globex").expect("a tenant"), Some("ls.events")).expect("a mapping");
    let refused = run(&config, &other, &without_pauses(), |_| {}).await.expect_err("it is acme's");
    assert!(refused.to_string().contains("--tenant acme"), "{refused}");
}
