//! What is added, and what is refused.

use crate::support::{Legacy, TENANT, quick, shape};
use onceward::TenantId;
use onceward_adoption::{AdoptionError, Options, Shape, State, plan, run};
use onceward_testkit::TestDb;

#[tokio::test]
async fn tenants_keys_and_references_are_added() {
    let legacy = Legacy::new().await;
    legacy
        .do_sql("INSERT INTO borrowers (name) VALUES ('Ada'); INSERT INTO loans (borrower_id, amount) VALUES (1, 1)")
        .await;
    legacy.run().await;
    assert_eq!(legacy.ask::<String>("SELECT tenant_id FROM borrower_entities", &[]).await, TENANT);
    legacy.do_sql("INSERT INTO borrowers (name) VALUES ('Grace')").await;
    assert_eq!(legacy.ask::<i64>("SELECT count(*) FROM borrower_entities WHERE tenant_id = 'acme'", &[]).await, 2);
    let constraints = "SELECT string_agg(conname || CASE WHEN convalidated THEN '' ELSE ' not valid' END, ',' ORDER BY conname)
                       FROM pg_constraint WHERE conname LIKE '%\\_tenant\\_%' AND connamespace = 'public'::regnamespace";
    // The old program has no foreign key from payments, so none is forced on it.
    let expected = "borrower_entities_tenant_key,loans_tenant_key,loans_tenant_reference,payments_tenant_key";
    assert_eq!(legacy.ask::<String>(constraints, &[]).await, expected);
    legacy.do_sql("INSERT INTO payments (loan_id, amount) VALUES (99, 1)").await;
    let options = Options { enforce: true, ..quick() };
    // Not while a row refers to nothing.
    legacy.try_run(&options).await.expect("it goes through");
    assert_eq!(legacy.ask::<String>(constraints, &[]).await, expected);
    assert_eq!(legacy.findings().await, ["payments 1 loan_id 99: refers to a row that is not there"]);
    legacy.do_sql("UPDATE payments SET loan_id = 1").await;
    assert_eq!(legacy.try_run(&options).await.expect("it goes through"), 0);
    assert_eq!(legacy.ask::<String>(constraints, &[]).await, format!("{expected},payments_tenant_reference"));
    let foreign = "UPDATE borrower_entities SET tenant_id = 'globex' WHERE id = 1";
    assert!(legacy.client.batch_execute(foreign).await.is_err(), "its loan belongs to acme");
}

#[tokio::test]
async fn a_plan_changes_nothing_and_follows_what_is_done() {
    let legacy = Legacy::new().await;
    let config = legacy.platform.database().config();
    let before = plan(&config, &shape()).await.expect("a plan");
    assert!(before.iter().all(|step| step.state == State::ToDo));
    assert!(!legacy.ask::<bool>("SELECT to_regclass('adoption.shape') IS NOT NULL", &[]).await);
    legacy.run().await;
    let after = plan(&config, &shape()).await.expect("a plan");
    let not_done: Vec<&str> =
        after.iter().filter(|step| step.state != State::Done).map(|step| step.name.as_str()).collect();
    assert_eq!(not_done, ["tenant reference of payments"]);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_before_anything_is_changed() {
    let empty = TestDb::empty().await;
    let refused = run(&empty.config(), &shape(), &quick(), |_| {}).await.expect_err("there is nothing to adopt");
    assert!(refused.to_string().contains("public.loans.amount as double precision"), "{refused}");
    let legacy = Legacy::new().await;
    let config = legacy.platform.database().config();
    legacy.do_sql("ALTER TABLE loans ALTER COLUMN amount TYPE numeric").await;
    let refused = plan(&config, &shape()).await.expect_err("it is numeric");
    assert!(refused.to_string().contains("not numeric"), "{refused}");
    legacy.do_sql("ALTER TABLE loans ALTER COLUMN amount TYPE double precision").await;
    let tenant = || TenantId::new("acme").expect("a tenant");
    let elsewhere = Shape::new("public", tenant(), Some("nowhere")).expect("a shape");
    assert!(plan(&config, &elsewhere).await.expect_err("no exchange").to_string().contains("nowhere"));
    assert!(matches!(Shape::new("pub\"lic", tenant(), None), Err(AdoptionError::Refused(_))));
    legacy.run().await;
    let other = Shape::new("public", TenantId::new("globex").expect("a tenant"), Some("ls.events")).expect("a shape");
    let refused = run(&config, &other, &quick(), |_| {}).await.expect_err("it is acme's");
    assert!(refused.to_string().contains("--tenant acme"), "{refused}");
}
