//! Statuses and schedules over time: a loan's status on the effective day decides.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use jiff::civil::{Date, date};
use serde_json::{Value, json};
use uuid::Uuid;

fn with_late_fee(grace_days: u32) -> Value {
    json!({"late_fee": {"grace_days": grace_days, "charge": {"kind": "flat", "amount_minor": "500"}}})
}

async fn change_status_on(client: &ApiClient<'_>, loan_id: Uuid, status: &str, day: Date) {
    let change = json!({"action": "change_status", "status": status, "effective_date": day});
    let response = client.change(loan_id, change).await;
    assert_eq!((&response["state"], &response["status"]), (&json!("done"), &json!(status)), "{response}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_late_fee_is_charged_for_the_time_of_a_stay_after_it_ends() {
    for stay in ["bankruptcy", "in_modification"] {
        let fixture = LendingFixture::start().await;
        let client = fixture.client("acme");
        client.product("home", with_late_fee(15)).await;
        let loan_id = client.active_loan("home", json!({})).await;
        change_status_on(&client, loan_id, stay, date(2024, 1, 20)).await;
        fixture.run_daily_work("acme", date(2024, 4, 20)).await;
        assert!(client.postings(loan_id, "posting.late_fee.v1").await.is_empty());
        change_status_on(&client, loan_id, "active", date(2024, 5, 1)).await;
        fixture.run_daily_work("acme", date(2024, 5, 17)).await;
        let fees = client.postings(loan_id, "posting.late_fee.v1").await;
        assert_eq!(fees.len(), 1, "{stay}: {fees:?}");
        assert_eq!(fees[0]["correlation_id"], format!("late_fee:{loan_id}:1.4"));
        assert_eq!(fees[0]["effective_date"], "2024-05-17");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stay_recorded_late_counts_from_its_effective_day() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let [late, in_time] =
        [funded_loan(&client, 38, with_late_fee(1)).await, funded_loan(&client, 38, with_late_fee(1)).await];
    let filed = days_ago(9);
    change_status_on(&client, in_time, "bankruptcy", filed).await;
    for days in (0..10).rev() {
        fixture.run_daily_work("acme", days_ago(days)).await;
    }
    assert_eq!(balance(&client, late, "fees_receivable").await, 500, "the stay was not recorded yet");
    for (loan_id, txn) in [(late, "a"), (in_time, "b")] {
        submit_and_post(&client, &mock_payment_on(loan_id, txn, 3_000, days_ago(2))).await;
    }
    assert_eq!(balance(&client, late, "suspense").await, 0);

    change_status_on(&client, late, "bankruptcy", filed).await;
    assert_eq!(balance(&client, late, "suspense").await, 3_000, "the court decides what the payment may pay");
    let replays = "SELECT count(*) FROM lending.loan_replay WHERE because = 'status_changed'";
    assert_eq!(fixture.query_value::<i64>(replays, &[]).await, 1);
    for (loan_id, txn) in [(late, "c"), (in_time, "d")] {
        change_status_on(&client, loan_id, "active", days_ago(1)).await;
        // The payment takes effect on a day of the stay, though the stay is over.
        let held = submit_and_post(&client, &mock_payment_on(loan_id, txn, 400, days_ago(3))).await;
        assert_eq!(held["posting"]["held"], true, "{held}");
    }
    wait_until_idle(&fixture).await;
    for days in 0..=10 {
        let day = days_ago(days);
        assert_eq!(as_of(&client, late, day).await, as_of(&client, in_time, day).await, "as of {day}");
    }
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_changes_are_stored_with_their_effective_days_in_one_order() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({"start_date": "2024-01-01"})).await;
    change_status_on(&client, loan_id, "bankruptcy", date(2024, 3, 5)).await;
    for (day, reason) in [
        (json!("2199-01-01"), "in the future"),
        (json!("2023-12-31"), "funded on 2024-01-01"),
        (json!("2024-03-04"), "the loan has been bankruptcy since 2024-03-05"),
    ] {
        let change = json!({"action": "change_status", "status": "active", "effective_date": day});
        let refused = client.change(loan_id, change).await;
        assert_eq!(refused["state"], "refused", "{day}");
        assert!(refused["reason"].as_str().unwrap().contains(reason), "{refused}");
    }
    change_status_on(&client, loan_id, "active", date(2024, 3, 5)).await;
    let loan = client.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    assert_eq!((&loan["status"], &loan["status_since"]), (&json!("active"), &json!("2024-03-05")));

    let found = client.get(&format!("/api/loans/{loan_id}/statuses")).await.with_status(200);
    let changes: Vec<(Value, Value, Value)> = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (change["from"].clone(), change["to"].clone(), change["effective_date"].clone()))
        .collect();
    let expected = [
        (Value::Null, json!("created"), json!("2024-01-01")),
        (json!("created"), json!("active"), json!("2024-01-01")),
        (json!("active"), json!("bankruptcy"), json!("2024-03-05")),
        (json!("bankruptcy"), json!("active"), json!("2024-03-05")),
    ];
    assert_eq!(changes, expected);
    assert!(found["changes"].as_array().unwrap().iter().all(|change| change["actor"] == "tester"), "{found}");
    client.get(&format!("/api/loans/{}/statuses", Uuid::now_v7())).await.with_status(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_replaced_by_a_modification_can_still_be_read() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", with_late_fee(15)).await;
    let loan_id = client.active_loan("home", json!({})).await;
    let path = format!("/api/loans/{loan_id}/schedule");
    let first = client.get(&path).await.with_status(200);
    fixture.run_daily_work("acme", date(2024, 2, 17)).await;
    change_status_on(&client, loan_id, "in_modification", date(2024, 2, 20)).await;
    let terms = json!({"action": "modify", "effective_date": "2024-03-01", "term_months": 4});
    assert_eq!(client.change(loan_id, terms).await["state"], "done");

    let second = client.get(&path).await.with_status(200);
    assert_eq!((&second["schedule_no"], second["rows"].as_array().unwrap().len()), (&json!(2), 4));
    assert_eq!(client.get(&format!("{path}?version=2")).await.with_status(200), second);
    let old = client.get(&format!("{path}?version=1")).await.with_status(200);
    assert_eq!(old["rows"], first["rows"], "the original schedule is unchanged");
    assert_eq!((&old["schedule_no"], &old["in_force_no"]), (&json!(1), &json!(2)));
    for missing in ["0", "3"] {
        client.get(&format!("{path}?version={missing}")).await.with_status(404);
    }
    // The fee of the old schedule stays, and the new schedule has its own.
    fixture.run_daily_work("acme", date(2024, 4, 17)).await;
    let fees = client.postings(loan_id, "posting.late_fee.v1").await;
    let ids: Vec<&str> = fees.iter().map(|fee| fee["correlation_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [format!("late_fee:{loan_id}:1.1"), format!("late_fee:{loan_id}:2.1")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_off_loan_is_in_bankruptcy_again_when_its_payment_is_returned() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 20, json!({})).await;
    change_status_on(&client, loan_id, "bankruptcy", days_ago(5)).await;
    let payment_id = id(&submit_and_post(&client, &mock_payment(loan_id, "all", 130_000)).await["payment_id"]);
    client.post("/api/payments/allocate", &json!({"loan_id": loan_id})).await.with_status(202);
    wait_until_idle(&fixture).await;
    let status = async || client.get(&format!("/api/loans/{loan_id}")).await.with_status(200)["status"].clone();
    assert_eq!(status().await, "paid_off");
    let refused = client.change(loan_id, json!({"action": "change_status", "status": "bankruptcy"})).await;
    assert!(refused["reason"].as_str().unwrap().contains("returning the payment"), "{refused}");
    client.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(&client, payment_id, "returned").await;
    assert_eq!(status().await, "bankruptcy");
    assert_eq!(balance(&client, loan_id, "loan_principal").await, 120_000);
    assert_eq!(balance(&client, loan_id, "suspense").await, 0);
    assert_books_balance(&fixture).await;
}
