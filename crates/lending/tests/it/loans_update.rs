//! Changing loans: funding, status, terms, giving up, closing.

use crate::support::{Desk, Office};
use jiff::civil::date;
use onceward::{Event, outbox};
use onceward_lending::{
    Settings,
    loans::{self, events::LoanUpdate, request::LoanChange},
};
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

async fn check_refused(desk: &Desk<'_>, loan_id: Uuid, change: Value, reason: &str) {
    let before = desk.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    let status = desk.change(loan_id, change.clone()).await;
    assert_eq!(status["state"], "refused", "{change}: {status}");
    assert!(status["reason"].as_str().unwrap().contains(reason), "{change}: {status}");
    assert_eq!(desk.get(&format!("/api/loans/{loan_id}")).await.with_status(200), before, "{change}");
}

async fn check_becomes(desk: &Desk<'_>, loan_id: Uuid, change: Value, expected: &str) {
    let status = desk.change(loan_id, change.clone()).await;
    assert_eq!((&status["state"], &status["status"]), (&json!("done"), &json!(expected)), "{change}: {status}");
}

fn to(status: &str) -> Value {
    json!({"action": "change_status", "status": status})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activation_that_is_asked_for_twice_posts_funding_once() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.loan("home", json!({})).await;
    let change = LoanChange::Activate { funded_on: Some(date(2024, 1, 1)), first_due_date: None };
    let update = LoanUpdate { loan_id, version: None, change };
    let mut tx = desk.begin().await;
    outbox::publish(&mut tx, &update).await.unwrap();
    outbox::publish(&mut tx, &update).await.unwrap();
    tx.commit().await.unwrap();

    let handled = "SELECT count(*) FROM lending.command_status WHERE kind = $1 AND state <> 'processing'";
    eventually("both are handled", || async {
        let refused = office.audited("acme", "loan_command_refused").await;
        (refused == 1 && office.ask::<i64>(handled, &[&LoanUpdate::TYPE]).await > 0).then_some(())
    })
    .await;
    assert_eq!(desk.postings(loan_id, "posting.funding.v1").await.len(), 1);
    let balances = desk.balances(loan_id).await;
    assert_eq!(balances["loan_principal_minor"], "10000");
    assert_eq!((&balances["disbursement_clearing_minor"], &balances["cash_minor"]), (&json!("10000"), &json!("0")));
    let loan = desk.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    assert_eq!((&loan["funded_on"], &loan["accrued_to"]), (&json!("2024-01-01"), &json!("2024-01-01")));
    assert_eq!((&loan["status"], &loan["version"]), (&json!("active"), &json!(2)));
    assert_eq!(office.audited("acme", "loan_updated").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_that_is_funded_late_gets_a_new_schedule() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({"day_count": "ACT/365"})).await;
    let loan_id = desk.loan("home", json!({})).await;
    check_refused(&desk, loan_id, json!({"action": "activate", "funded_on": "2024-02-01"}), "first due date").await;
    check_refused(&desk, loan_id, json!({"action": "activate", "funded_on": "2199-01-01"}), "in the future").await;
    check_becomes(&desk, loan_id, json!({"action": "activate", "funded_on": "2024-01-11"}), "active").await;
    let schedule = desk.get(&format!("/api/loans/{loan_id}/schedule")).await.with_status(200);
    // 21 days at 7 %.
    assert_eq!(
        (&schedule["rows"][0]["interest_minor"], &schedule["rows"][0]["due_date"]),
        (&json!("40"), &json!("2024-02-01"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_changes_only_as_the_machine_allows() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.loan("home", json!({})).await;
    check_refused(
        &desk,
        loan_id,
        to("bankruptcy"),
        "a loan that is created cannot become bankruptcy: choose active, closed",
    )
    .await;
    check_refused(&desk, loan_id, to("active"), "by the action activate").await;
    check_refused(&desk, loan_id, json!({"action": "charge_off"}), "not funded").await;
    check_refused(&desk, loan_id, json!({"action": "modify", "term_months": 12}), "not funded").await;
    check_becomes(&desk, loan_id, json!({"action": "activate", "funded_on": "2024-01-01"}), "active").await;
    check_refused(&desk, loan_id, json!({"action": "activate"}), "needs a loan that is created; it is active").await;
    check_refused(&desk, loan_id, json!({"action": "close"}), "cannot become closed").await;
    check_refused(&desk, loan_id, to("paid_off"), "by paying what is owed").await;
    check_refused(&desk, loan_id, to("charged_off"), "by the action charge_off").await;
    check_refused(&desk, loan_id, json!({"action": "reverse_charge_off"}), "it is active").await;
    check_refused(
        &desk,
        loan_id,
        json!({"action": "modify", "term_months": 12}),
        "needs a loan that is in_modification",
    )
    .await;
    check_becomes(&desk, loan_id, to("bankruptcy"), "bankruptcy").await;
    check_becomes(&desk, loan_id, to("in_modification"), "in_modification").await;
    check_becomes(&desk, loan_id, to("active"), "active").await;
    assert_eq!(office.audited("acme", "loan_status_changed").await, 3);
    let entry: String = office
        .ask("SELECT document FROM audit.entry WHERE event_type = 'loan_status_changed' ORDER BY seq LIMIT 1", &[])
        .await;
    let entry: Value = serde_json::from_str(&entry).unwrap();
    assert_eq!(entry["oldValue"], json!({"status": "active", "version": 2}));
    assert_eq!(entry["newValue"], json!({"status": "bankruptcy", "version": 3}));

    let other = desk.loan("home", json!({})).await;
    check_becomes(&desk, other, json!({"action": "close"}), "closed").await;
    check_refused(&desk, other, to("active"), "that is final").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_for_another_version_is_refused_now_or_later() {
    let mut office = Office::without_consumers(Settings::default(), None).await;
    office.platform.run_consumers();
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.loan("home", json!({})).await;
    let path = format!("/api/loans/{loan_id}");
    let refused = desk.patch(&path, &json!({"action": "close", "version": 2})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-changed")));

    // Both saw version 1; they are handled one after the other.
    let update = |change| LoanUpdate { loan_id, version: Some(1), change };
    let mut tx = desk.begin().await;
    let activate = LoanChange::Activate { funded_on: Some(date(2024, 1, 1)), first_due_date: None };
    outbox::publish(&mut tx, &update(activate)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = desk.begin().await;
    outbox::publish(&mut tx, &update(LoanChange::Close { reason: None })).await.unwrap();
    tx.commit().await.unwrap();
    let status = eventually("the second is handled", || async {
        let status = desk.get(&format!("{path}/status")).await.with_status(200);
        (status["state"] == "refused").then_some(status)
    })
    .await;
    assert_eq!(status["status"], "active");
    assert!(status["reason"].as_str().unwrap().contains("version 2, not 1"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_terms_repay_what_is_owed_by_a_new_schedule() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.active_loan("home", json!({})).await;
    desk.pay(loan_id, date(2024, 2, 1), 1701).await;
    check_becomes(&desk, loan_id, to("in_modification"), "in_modification").await;
    let terms = json!({
        "action": "modify", "effective_date": "2024-03-01", "annual_rate": "0", "term_months": 4,
        "first_due_date": "2024-04-01",
    });
    let mut early = terms.clone();
    early["effective_date"] = json!("2024-01-15");
    check_refused(&desk, loan_id, early, "interest is booked up to 2024-02-01").await;
    check_becomes(&desk, loan_id, terms, "active").await;

    let schedule = desk.get(&format!("/api/loans/{loan_id}/schedule")).await.with_status(200);
    let payments: Vec<&str> =
        schedule["rows"].as_array().unwrap().iter().map(|row| row["payment_minor"].as_str().unwrap()).collect();
    assert_eq!(payments, ["2089", "2089", "2089", "2090"], "8357 without interest");
    assert_eq!(schedule["schedule_no"], 2);
    // The interest of February ran by the old terms, and stays owed.
    assert_eq!(desk.balances(loan_id).await["interest_receivable_minor"], "49");
    office.serve_day("acme", date(2024, 4, 1)).await;
    assert_eq!(desk.balances(loan_id).await["interest_receivable_minor"], "49");

    let tx = desk.begin().await;
    let loan = desk.lock(&tx, loan_id).await;
    let dues = loans::dues(&tx, &loan, date(2024, 4, 1)).await.unwrap();
    let unpaid = dues.oldest_unpaid.unwrap();
    assert_eq!((unpaid.number, unpaid.lacks.get()), (1, 2089), "what came before paid the old schedule");
    assert_eq!(dues.outstanding.interest_past_due.get(), 49);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_that_was_given_up_owes_nothing_until_that_is_taken_back() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.active_loan("home", json!({})).await;
    let charge_off = json!({"action": "charge_off", "effective_date": "2024-02-01", "reason": "gone"});
    check_becomes(&desk, loan_id, charge_off, "charged_off").await;
    let balances = desk.balances(loan_id).await;
    assert_eq!(balances["charge_off_expense_minor"], "10058");
    assert_eq!((&balances["loan_principal_minor"], &balances["interest_receivable_minor"]), (&json!("0"), &json!("0")));
    let refused = desk.get(&format!("/api/loans/{loan_id}/payoff")).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-refuses")));

    let back = json!({"action": "reverse_charge_off", "effective_date": "2024-02-11"});
    check_becomes(&desk, loan_id, back, "active").await;
    assert_eq!(desk.balances(loan_id).await["loan_principal_minor"], "10000");
    office.serve_day("acme", date(2024, 2, 21)).await;
    // 58 of January, and ten days of February.
    assert_eq!(desk.balances(loan_id).await["interest_receivable_minor"], "77");
    assert_eq!(desk.balances(loan_id).await["charge_off_expense_minor"], "0");
}
