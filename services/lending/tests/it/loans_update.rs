//! Changing loans: funding, status, terms, charge-off, closing.

use crate::support::{ApiClient, LendingFixture};
use jiff::civil::date;
use onceward::{Event, outbox};
use onceward_lending::{
    Settings,
    loans::{self, events::LoanUpdate, request::LoanChange},
};
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

async fn check_refused(client: &ApiClient<'_>, loan_id: Uuid, change: Value, reason: &str) {
    let before = client.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    let status = client.change(loan_id, change.clone()).await;
    assert_eq!(status["state"], "refused", "{change}: {status}");
    assert!(status["reason"].as_str().unwrap().contains(reason), "{change}: {status}");
    assert_eq!(client.get(&format!("/api/loans/{loan_id}")).await.with_status(200), before, "{change}");
}

async fn check_becomes(client: &ApiClient<'_>, loan_id: Uuid, change: Value, expected: &str) {
    let status = client.change(loan_id, change.clone()).await;
    assert_eq!((&status["state"], &status["status"]), (&json!("done"), &json!(expected)), "{change}: {status}");
}

fn to(status: &str) -> Value {
    json!({"action": "change_status", "status": status})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activation_requested_twice_posts_funding_once() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.loan("home", json!({})).await;
    let change = LoanChange::Activate { funded_on: Some(date(2024, 1, 1)), first_due_date: None };
    let update = LoanUpdate { loan_id, version: None, change };
    let mut tx = client.begin().await;
    outbox::publish(&mut tx, &update).await.unwrap();
    outbox::publish(&mut tx, &update).await.unwrap();
    tx.commit().await.unwrap();

    let handled = "SELECT count(*) FROM lending.command_status WHERE kind = $1 AND state <> 'processing'";
    eventually("both are handled", || async {
        let refused = fixture.count_audit_entries("acme", "loan_command_refused").await;
        (refused == 1 && fixture.query_value::<i64>(handled, &[&LoanUpdate::TYPE]).await > 0).then_some(())
    })
    .await;
    assert_eq!(client.postings(loan_id, "posting.funding.v1").await.len(), 1);
    let balances = client.balances(loan_id).await;
    assert_eq!(balances["loan_principal_minor"], "10000");
    assert_eq!((&balances["disbursement_clearing_minor"], &balances["cash_minor"]), (&json!("10000"), &json!("0")));
    let loan = client.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    assert_eq!((&loan["funded_on"], &loan["accrued_to"]), (&json!("2024-01-01"), &json!("2024-01-01")));
    assert_eq!((&loan["status"], &loan["version"]), (&json!("active"), &json!(2)));
    assert_eq!(fixture.count_audit_entries("acme", "loan_updated").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_that_is_funded_late_gets_a_new_schedule() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({"day_count": "ACT/365"})).await;
    let loan_id = client.loan("home", json!({})).await;
    check_refused(&client, loan_id, json!({"action": "activate", "funded_on": "2024-02-01"}), "first due date").await;
    check_refused(&client, loan_id, json!({"action": "activate", "funded_on": "2199-01-01"}), "in the future").await;
    check_becomes(&client, loan_id, json!({"action": "activate", "funded_on": "2024-01-11"}), "active").await;
    let schedule = client.get(&format!("/api/loans/{loan_id}/schedule")).await.with_status(200);
    // 21 days at 7 %.
    assert_eq!(
        (&schedule["rows"][0]["interest_minor"], &schedule["rows"][0]["due_date"]),
        (&json!("40"), &json!("2024-02-01"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_changes_only_by_allowed_transitions() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.loan("home", json!({})).await;
    check_refused(
        &client,
        loan_id,
        to("bankruptcy"),
        "a loan that is created cannot become bankruptcy: choose active, closed",
    )
    .await;
    check_refused(&client, loan_id, to("active"), "by the action activate").await;
    check_refused(&client, loan_id, json!({"action": "charge_off"}), "not funded").await;
    check_refused(&client, loan_id, json!({"action": "modify", "term_months": 12}), "not funded").await;
    check_becomes(&client, loan_id, json!({"action": "activate", "funded_on": "2024-01-01"}), "active").await;
    check_refused(&client, loan_id, json!({"action": "activate"}), "requires a loan that is created; it is active")
        .await;
    check_refused(&client, loan_id, json!({"action": "close"}), "cannot become closed").await;
    check_refused(&client, loan_id, to("paid_off"), "by paying what is owed").await;
    check_refused(&client, loan_id, to("charged_off"), "by the action charge_off").await;
    check_refused(&client, loan_id, json!({"action": "reverse_charge_off"}), "it is active").await;
    check_refused(
        &client,
        loan_id,
        json!({"action": "modify", "term_months": 12}),
        "requires a loan that is in_modification",
    )
    .await;
    check_becomes(&client, loan_id, to("bankruptcy"), "bankruptcy").await;
    check_becomes(&client, loan_id, to("in_modification"), "in_modification").await;
    check_becomes(&client, loan_id, to("active"), "active").await;
    assert_eq!(fixture.count_audit_entries("acme", "loan_status_changed").await, 3);
    let entry: String = fixture
        .query_value(
            "SELECT document FROM audit.entry WHERE event_type = 'loan_status_changed' ORDER BY seq LIMIT 1",
            &[],
        )
        .await;
    let entry: Value = serde_json::from_str(&entry).unwrap();
    assert_eq!(entry["oldValue"], json!({"status": "active", "version": 2}));
    assert_eq!(entry["newValue"], json!({"status": "bankruptcy", "version": 3}));

    let other = client.loan("home", json!({})).await;
    check_becomes(&client, other, json!({"action": "close"}), "closed").await;
    check_refused(&client, other, to("active"), "its status is final").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_for_another_version_is_refused_at_once_or_by_the_command() {
    let mut fixture = LendingFixture::without_consumers(Settings::default(), None).await;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.loan("home", json!({})).await;
    let path = format!("/api/loans/{loan_id}");
    let refused = client.patch(&path, &json!({"action": "close", "version": 2})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-changed")));

    // Both saw version 1; they are handled one after the other.
    let update = |change| LoanUpdate { loan_id, version: Some(1), change };
    let mut tx = client.begin().await;
    let activate = LoanChange::Activate { funded_on: Some(date(2024, 1, 1)), first_due_date: None };
    outbox::publish(&mut tx, &update(activate)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = client.begin().await;
    outbox::publish(&mut tx, &update(LoanChange::Close { reason: None })).await.unwrap();
    tx.commit().await.unwrap();
    let status = eventually("the second is handled", || async {
        let status = client.get(&format!("{path}/status")).await.with_status(200);
        (status["state"] == "refused").then_some(status)
    })
    .await;
    assert_eq!(status["status"], "active");
    assert!(status["reason"].as_str().unwrap().contains("version 2, not 1"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_terms_repay_the_remaining_principal_by_a_new_schedule() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({})).await;
    client.pay(loan_id, date(2024, 2, 1), 1701).await;
    check_becomes(&client, loan_id, to("in_modification"), "in_modification").await;
    let terms = json!({
        "action": "modify", "effective_date": "2024-03-01", "annual_rate": "0", "term_months": 4,
        "first_due_date": "2024-04-01",
    });
    let mut early = terms.clone();
    early["effective_date"] = json!("2024-01-15");
    check_refused(&client, loan_id, early, "interest is booked up to 2024-02-01").await;
    check_becomes(&client, loan_id, terms, "active").await;

    let schedule = client.get(&format!("/api/loans/{loan_id}/schedule")).await.with_status(200);
    let payments: Vec<&str> =
        schedule["rows"].as_array().unwrap().iter().map(|row| row["payment_minor"].as_str().unwrap()).collect();
    assert_eq!(payments, ["2089", "2089", "2089", "2090"], "8357 without interest");
    assert_eq!(schedule["schedule_no"], 2);
    // The interest of February accrued under the old terms, and stays owed.
    assert_eq!(client.balances(loan_id).await["interest_receivable_minor"], "49");
    fixture.run_daily_work("acme", date(2024, 4, 1)).await;
    assert_eq!(client.balances(loan_id).await["interest_receivable_minor"], "49");

    let tx = client.begin().await;
    let loan = client.lock(&tx, loan_id).await;
    let dues = loans::dues(&tx, &loan, date(2024, 4, 1)).await.unwrap();
    let unpaid = dues.oldest_unpaid.unwrap();
    assert_eq!((unpaid.number, unpaid.missing.get()), (1, 2089), "earlier receipts paid the old schedule");
    assert_eq!(dues.outstanding.interest_past_due.get(), 49);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charged_off_loan_owes_nothing_until_the_charge_off_is_reversed() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({})).await;
    let charge_off = json!({"action": "charge_off", "effective_date": "2024-02-01", "reason": "gone"});
    check_becomes(&client, loan_id, charge_off, "charged_off").await;
    let balances = client.balances(loan_id).await;
    assert_eq!(balances["charge_off_expense_minor"], "10058");
    assert_eq!((&balances["loan_principal_minor"], &balances["interest_receivable_minor"]), (&json!("0"), &json!("0")));
    let refused = client.get(&format!("/api/loans/{loan_id}/payoff")).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-refuses")));

    let back = json!({"action": "reverse_charge_off", "effective_date": "2024-02-11"});
    check_becomes(&client, loan_id, back, "active").await;
    assert_eq!(client.balances(loan_id).await["loan_principal_minor"], "10000");
    fixture.run_daily_work("acme", date(2024, 2, 21)).await;
    // 58 for January, and ten days of February.
    assert_eq!(client.balances(loan_id).await["interest_receivable_minor"], "77");
    assert_eq!(client.balances(loan_id).await["charge_off_expense_minor"], "0");
}
