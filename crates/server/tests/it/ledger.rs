//! `onceward ledger check` on the loans of two tenants.

use crate::{
    plug::{loans::open_loans, till::Till},
    support::run,
};
use jiff::{Timestamp, tz::TimeZone};
use onceward_lending::{Settings, service};
use onceward_testkit::{TestDb, TestPlatform, eventually, leftovers};
use serde_json::{Value, json};
use uuid::Uuid;

struct Checked {
    code: i32,
    printed: String,
}

impl Checked {
    fn json(&self) -> Value {
        serde_json::from_str(&self.printed).expect("it is JSON")
    }
}

async fn check(database: &TestDb, args: &[&str]) -> Checked {
    let args = [&["ledger", "check"], args].concat();
    let output = run(&args, &[("DATABASE_URL", &database.url())]).await;
    let printed = String::from_utf8(output.stdout).expect("the program prints UTF-8");
    Checked { code: output.status.code().expect("it ends by itself"), printed }
}

/// A funded loan of acme and one of globex, with the same id.
async fn funded() -> (TestPlatform, Uuid) {
    let mut platform = TestPlatform::new(vec![service(Settings::default())]).await;
    platform.run_consumers();
    let till = Till::at(platform.serve_http().await);
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loan_id = open_loans(&till, today, 1).await[0];
    let owner = platform.database().owner().await;
    eventually("everything is through", || async { leftovers(&owner).await.is_empty().then_some(()) }).await;
    (platform, loan_id)
}

#[tokio::test]
async fn a_ledger_agrees_until_somebody_goes_around_it() {
    let (platform, loan_id) = funded().await;
    let database = platform.database();
    let sound = check(database, &["--json"]).await;
    let told = sound.json();
    assert_eq!((sound.code, &told["agrees"]), (0, &json!(true)), "{told}");
    let names: Vec<&Value> = told["tenants"].as_array().unwrap().iter().map(|one| &one["tenant_id"]).collect();
    assert_eq!(names, ["acme", "globex"]);
    for tenant in told["tenants"].as_array().unwrap() {
        let lines = tenant["trial_balance"].as_array().unwrap();
        assert!(
            lines.iter().any(|line| line["account"] == "loan_principal" && line["debits_minor"] != "0"),
            "{tenant}"
        );
    }

    let owner = database.owner().await;
    let change = "UPDATE ledger.balance SET balance_minor = balance_minor + 1
        WHERE tenant_id = 'acme' AND loan_id = $1 AND account = 'loan_principal' RETURNING balance_minor";
    let kept: i64 = owner.query_one(change, &[&loan_id]).await.expect("the owner may").get(0);
    let found = check(database, &["--json"]).await;
    let (told, acme) = (found.json(), found.json()["tenants"][0].clone());
    assert_eq!((found.code, &told["agrees"], &acme["agrees"]), (1, &json!(false), &json!(false)));
    let expected = json!([{
        "loan_id": loan_id, "account": "loan_principal", "currency": "USD", "kept_minor": kept.to_string(),
        "recomputed_minor": (kept - 1).to_string(),
    }]);
    assert_eq!((&acme["differences"], &acme["unbalanced"]), (&expected, &json!([])));
    assert_eq!(told["tenants"][1]["agrees"], true, "the other tenant's loan with this id is sound");

    let words = check(database, &["--tenant", "acme"]).await;
    assert_eq!(words.code, 1);
    let named = format!(
        "DIFFERENCE loan {loan_id} loan_principal USD: the balance is {kept}, its entries add up to {}",
        kept - 1
    );
    assert!(words.printed.contains(&named) && !words.printed.contains("globex"), "{}", words.printed);
    let words = check(database, &["--tenant", "globex"]).await;
    assert!(words.code == 0 && words.printed.contains("globex: all agrees"), "{}", words.printed);
}

#[tokio::test]
async fn an_event_whose_entries_were_changed_shows_in_the_trial_balance() {
    let (platform, loan_id) = funded().await;
    let owner = platform.database().owner().await;
    owner.batch_execute("ALTER TABLE ledger.ledger_entry DISABLE TRIGGER USER").await.expect("the owner may");
    let forge = "UPDATE ledger.ledger_entry SET debit_minor = debit_minor + 5
        WHERE tenant_id = 'globex' AND loan_id = $1 AND account = 'loan_principal' AND debit_minor > 0";
    assert_eq!(owner.execute(forge, &[&loan_id]).await.expect("nothing stops it now"), 1);
    let found = check(platform.database(), &["--tenant", "globex"]).await;
    assert_eq!(found.code, 1);
    for named in
        ["USD: debits less credits of all accounts leave 5", "DIFFERENCE event ", "loan_principal USD: the balance"]
    {
        assert!(found.printed.contains(named), "{named} in {}", found.printed);
    }
    assert_eq!(check(platform.database(), &["--tenant", "acme"]).await.code, 0);
}

#[tokio::test]
async fn where_nothing_was_posted_there_is_nothing_to_check() {
    let platform = TestPlatform::new(vec![service(Settings::default())]).await;
    assert_eq!(check(platform.database(), &[]).await.code, 3);
    assert_eq!(check(platform.database(), &["--tenant", "nobody", "--json"]).await.code, 3);
    let empty = TestDb::empty().await;
    assert_eq!(check(&empty, &[]).await.code, 1, "without the tables it says how to make them");
}
