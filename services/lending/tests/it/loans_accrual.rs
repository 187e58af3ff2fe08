//! Daily work: interest and late fees, each once.

use crate::support::{ApiClient, LendingFixture};
use jiff::{
    Timestamp, ToSpan,
    civil::{Date, date},
    tz::TimeZone,
};
use onceward::messaging::schedule;
use onceward_ledger::{Account, credit, debit};
use onceward_lending::loans;
use onceward_money::Minor;
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

fn late_fee_after_15_days() -> Value {
    json!({"late_fee": {"grace_days": 15, "charge": {"kind": "flat", "amount_minor": "500"}}})
}

fn correlation_ids(postings: &[Value]) -> Vec<&str> {
    postings.iter().map(|posting| posting["correlation_id"].as_str().unwrap()).collect()
}

async fn receivable(client: &ApiClient<'_>, loan_id: Uuid) -> String {
    client.balances(loan_id).await["interest_receivable_minor"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interest_accrues_from_funding_and_daily_steps_add_up_to_the_schedule() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let waiting = client.loan("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({})).await;
    let mut day = date(2024, 1, 2);
    while day <= date(2024, 2, 1) {
        fixture.run_daily_work("acme", day).await;
        day = day.saturating_add(1.day());
    }
    assert_eq!(receivable(&client, loan_id).await, "58", "the interest of the schedule for January");
    let postings = client.postings(loan_id, "posting.accrual.v1").await;
    // In 30/360 the 31st accrues nothing.
    assert_eq!(postings.len(), 30);
    assert_eq!(postings[0]["correlation_id"], format!("accrual:{loan_id}:2024-01-01:2024-01-02"));
    assert!(client.postings(waiting, "posting.accrual.v1").await.is_empty(), "nothing accrues before funding");
    assert_eq!(fixture.count_audit_entries("acme", "interest_accrued").await, 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_each_period_is_posted_once_however_often_the_tick_is_repeated() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({})).await;
    let expected = [
        format!("accrual:{loan_id}:2024-01-01:2024-02-01"),
        format!("accrual:{loan_id}:2024-02-01:2024-03-01"),
        format!("accrual:{loan_id}:2024-03-01:2024-03-15"),
    ];
    for _ in 0..3 {
        fixture.run_daily_work("acme", date(2024, 3, 15)).await;
    }
    // A tick for an earlier day has no effect.
    fixture.run_daily_work("acme", date(2024, 2, 1)).await;
    fixture.wait_until_drained("loan.accrue.v1").await;
    let postings = client.postings(loan_id, "posting.accrual.v1").await;
    assert_eq!(correlation_ids(&postings), expected);
    assert_eq!(receivable(&client, loan_id).await, "143", "58 + 58 + 14 days of 27");
    let loan = client.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    assert_eq!((&loan["accrued_to"], &loan["version"]), (&json!("2024-03-15"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_services_the_loans_of_every_tenant() {
    let fixture = LendingFixture::start().await;
    let now = Timestamp::now();
    let start_date = now.to_zoned(TimeZone::UTC).date().saturating_sub(10.days());
    let mut loans = Vec::new();
    for tenant in ["acme", "globex"] {
        let client = fixture.client(tenant);
        client.product("home", json!({"day_count": "ACT/365"})).await;
        loans.push((tenant, client.active_loan("home", json!({"start_date": start_date})).await));
    }
    let all = fixture.platform.platform().schedules().iter();
    let timetables: Vec<_> = all.filter(|timetable| timetable.name() == "lending-accrual").cloned().collect();
    let two_days_ago = now - 48.hours();
    schedule::declare(fixture.platform.db(), &timetables, two_days_ago).await.unwrap();
    assert_eq!(schedule::tick(fixture.platform.db(), &timetables).await.unwrap(), 1, "one tick, for all missed times");
    let sql = "SELECT (payload->>'scheduledFor')::timestamptz::date FROM onceward.outbox_messages
               WHERE event_type = 'loan.accrue.v1' AND tenant_id = $1";
    for (tenant, loan_id) in loans {
        let day: Date = fixture.query_value(sql, &[&tenant]).await;
        let accrued = "SELECT accrued_to FROM lending.loan WHERE tenant_id = $1 AND loan_id = $2";
        eventually("the loan is served", || async {
            (fixture.query_value::<Date>(accrued, &[&tenant, &loan_id]).await == day).then_some(())
        })
        .await;
        assert_ne!(receivable(&fixture.client(tenant), loan_id).await, "0");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_instalment_incurs_one_fee_and_a_fee_incurs_none() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", late_fee_after_15_days()).await;
    let loan_id = client.active_loan("home", json!({})).await;
    let fees = async || client.postings(loan_id, "posting.late_fee.v1").await;
    fixture.run_daily_work("acme", date(2024, 2, 16)).await;
    assert!(fees().await.is_empty(), "the last day of grace");
    for day in [17, 18, 19] {
        fixture.run_daily_work("acme", date(2024, 2, day)).await;
    }
    assert_eq!(correlation_ids(&fees().await), [format!("late_fee:{loan_id}:1.1")]);
    assert_eq!(fees().await[0]["effective_date"], "2024-02-17");
    assert_eq!(fixture.count_audit_entries("acme", "late_fee_assessed").await, 1);

    // Both payments are whole instalments; the first one pays the fee first, so part of its instalment stays open.
    let parts = client.pay(loan_id, date(2024, 2, 20), 1701).await;
    assert_eq!(parts[0].amount, Minor::new(500), "{parts:?}");
    client.pay(loan_id, date(2024, 3, 1), 1701).await;
    fixture.run_daily_work("acme", date(2024, 3, 25)).await;
    assert_eq!(fees().await.len(), 1, "a paid fee does not make an instalment late");

    fixture.run_daily_work("acme", date(2024, 4, 17)).await;
    assert_eq!(correlation_ids(&fees().await)[1..], [format!("late_fee:{loan_id}:1.3")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backdated_payment_withdraws_the_late_fee() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", late_fee_after_15_days()).await;
    let loan_id = client.active_loan("home", json!({})).await;
    fixture.run_daily_work("acme", date(2024, 2, 21)).await;
    assert_eq!(client.balances(loan_id).await["fees_receivable_minor"], "500");
    assert_eq!(receivable(&client, loan_id).await, "97", "58, and twenty days of 10,000");

    // The payment arrived on the due date and was posted late.
    let lines = vec![
        debit(Account::Cash, Minor::new(1701), "received"),
        credit(Account::InterestReceivable, Minor::new(58), "interest"),
        credit(Account::LoanPrincipal, Minor::new(1643), "principal"),
    ];
    client.post_lines(loan_id, date(2024, 2, 1), loans::postings::PAYMENT, lines).await;
    let mut tx = client.begin().await;
    let scope = tx.scope().clone();
    let loan = client.lock(&tx, loan_id).await;
    let changed = loans::review_late_fees(&mut tx, &scope, &loan, date(2024, 2, 21)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(changed, 1);
    assert_eq!(client.balances(loan_id).await["fees_receivable_minor"], "0");
    assert_eq!(fixture.count_audit_entries("acme", "late_fee_withdrawn").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_loans_than_one_batch_are_all_serviced() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.active_loan("home", json!({})).await;
    let copies = "INSERT INTO lending.loan (tenant_id, loan_id, borrower_entity_id, product_code, product_version, policy,
            status, principal_minor, currency, start_date, schedule_start, first_due_date, due_day, funded_on, accrued_to,
            serviced_to)
        SELECT tenant_id, gen_random_uuid(), borrower_entity_id, product_code, product_version, policy, status,
            principal_minor, currency, start_date, schedule_start, first_due_date, due_day, funded_on, accrued_to, serviced_to
        FROM lending.loan, generate_series(1, 450) WHERE loan_id = $1";
    fixture.owner.execute(copies, &[&loan_id]).await.unwrap();
    fixture.run_daily_work("acme", date(2024, 2, 1)).await;
    assert_eq!(receivable(&client, loan_id).await, "58");
    let ticks = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'loan.accrue.v1'";
    assert_eq!(fixture.query_value::<i64>(ticks, &[]).await, 3, "one from the scheduler, and one for each remainder");
    assert_eq!(fixture.query_value::<Date>("SELECT min(accrued_to) FROM lending.loan", &[]).await, date(2024, 2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_with_invalid_books_does_not_prevent_others_from_being_serviced() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let wrong = client.active_loan("home", json!({})).await;
    let right = client.active_loan("home", json!({})).await;
    let lines = vec![
        debit(Account::Cash, Minor::new(20_000), "received"),
        credit(Account::LoanPrincipal, Minor::new(20_000), "twice what was lent"),
    ];
    client.post_lines(wrong, date(2024, 1, 10), loans::postings::PAYMENT, lines).await;
    fixture.run_daily_work("acme", date(2024, 2, 1)).await;
    assert_eq!(receivable(&client, right).await, "58");
    assert_eq!(receivable(&client, wrong).await, "0");
    let document: String =
        fixture.query_value("SELECT document FROM audit.entry WHERE event_type = 'loan_not_served'", &[]).await;
    assert!(document.contains("the principal is negative from 2024-01-10"), "{document}");

    let lines = vec![
        debit(Account::LoanPrincipal, Minor::new(20_000), "corrected"),
        credit(Account::Cash, Minor::new(20_000), "corrected"),
    ];
    client.post_lines(wrong, date(2024, 1, 10), loans::postings::PAYMENT, lines).await;
    fixture.run_daily_work("acme", date(2024, 2, 2)).await;
    assert_eq!(receivable(&client, wrong).await, receivable(&client, right).await);
}
