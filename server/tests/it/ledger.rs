//! `onceward ledger check` on the loans of two tenants.

use crate::{
    cli_fixture::CommandOutput,
    payment_kills::{lending_client::LendingClient, loans::create_loans},
    support::run,
};
use jiff::{Timestamp, tz::TimeZone};
use onceward_lending::{Settings, service};
use onceward_testkit::{TestDb, TestPlatform, eventually, pending_work};
use serde_json::{Value, json};
use uuid::Uuid;

async fn check(database: &TestDb, args: &[&str]) -> CommandOutput {
    let args = [&["ledger", "check"], args].concat();
    run(&args, &[("DATABASE_URL", &database.url())]).await.into()
}

/// Creates a funded loan of acme and one of globex, with the same id.
async fn funded_loans() -> (TestPlatform, Uuid) {
    let mut platform = TestPlatform::new(vec![service(Settings::default())]).await;
    platform.run_consumers();
    let lending = LendingClient::new(platform.serve_http().await);
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loan_id = create_loans(&lending, today, 1).await[0];
    let owner = platform.database().owner().await;
    eventually("everything is handled", || async { pending_work(&owner).await.is_empty().then_some(()) }).await;
    (platform, loan_id)
}

#[tokio::test]
async fn a_ledger_agrees_until_a_balance_is_changed_directly() {
    let (platform, loan_id) = funded_loans().await;
    let database = platform.database();
    let intact = check(database, &["--json"]).await;
    let report = intact.json().remove(0);
    assert_eq!((intact.code, &report["agrees"]), (0, &json!(true)), "{report}");
    let names: Vec<&Value> = report["tenants"].as_array().unwrap().iter().map(|tenant| &tenant["tenant_id"]).collect();
    assert_eq!(names, ["acme", "globex"]);
    for tenant in report["tenants"].as_array().unwrap() {
        let lines = tenant["trial_balance"].as_array().unwrap();
        assert!(
            lines.iter().any(|line| line["account"] == "loan_principal" && line["debits_minor"] != "0"),
            "{tenant}"
        );
    }

    let owner = database.owner().await;
    let change = "UPDATE ledger.balance SET balance_minor = balance_minor + 1
        WHERE tenant_id = 'acme' AND loan_id = $1 AND account = 'loan_principal' RETURNING balance_minor";
    let balance: i64 = owner.query_one(change, &[&loan_id]).await.expect("the owner may change it").get(0);
    let found = check(database, &["--json"]).await;
    let report = found.json().remove(0);
    let acme = &report["tenants"][0];
    assert_eq!((found.code, &report["agrees"], &acme["agrees"]), (1, &json!(false), &json!(false)));
    let expected = json!([{
        "loan_id": loan_id, "account": "loan_principal", "currency": "USD", "kept_minor": balance.to_string(),
        "recomputed_minor": (balance - 1).to_string(),
    }]);
    assert_eq!((&acme["differences"], &acme["unbalanced"]), (&expected, &json!([])));
    assert_eq!(report["tenants"][1]["agrees"], true, "the other tenant's loan with this id is intact");

    let text = check(database, &["--tenant", "acme"]).await;
    assert_eq!(text.code, 1);
    let named = format!(
        "DIFFERENCE loan {loan_id} loan_principal USD: the balance is {balance}, its entries add up to {}",
        balance - 1
    );
    assert!(text.stdout.contains(&named) && !text.stdout.contains("globex"), "{}", text.stdout);
    let text = check(database, &["--tenant", "globex"]).await;
    assert!(text.code == 0 && text.stdout.contains("globex: everything agrees"), "{}", text.stdout);
}

#[tokio::test]
async fn an_event_whose_entries_were_changed_shows_in_the_trial_balance() {
    let (platform, loan_id) = funded_loans().await;
    let owner = platform.database().owner().await;
    owner.batch_execute("ALTER TABLE ledger.ledger_entry DISABLE TRIGGER USER").await.expect("the owner may change it");
    let forge = "UPDATE ledger.ledger_entry SET debit_minor = debit_minor + 5
        WHERE tenant_id = 'globex' AND loan_id = $1 AND account = 'loan_principal' AND debit_minor > 0";
    assert_eq!(owner.execute(forge, &[&loan_id]).await.expect("the triggers are disabled"), 1);
    let found = check(platform.database(), &["--tenant", "globex"]).await;
    assert_eq!(found.code, 1);
    for named in [
        "USD: debits less credits of all accounts are 5, not 0",
        "DIFFERENCE event ",
        "loan_principal USD: the balance",
    ] {
        assert!(found.stdout.contains(named), "{named} in {}", found.stdout);
    }
    assert_eq!(check(platform.database(), &["--tenant", "acme"]).await.code, 0);
}

#[tokio::test]
async fn checking_a_ledger_without_postings_exits_with_3() {
    let platform = TestPlatform::new(vec![service(Settings::default())]).await;
    assert_eq!(check(platform.database(), &[]).await.code, 3);
    assert_eq!(check(platform.database(), &["--tenant", "nobody", "--json"]).await.code, 3);
    let empty = TestDb::empty().await;
    assert_eq!(check(&empty, &[]).await.code, 1, "without the tables, the command fails");
}
