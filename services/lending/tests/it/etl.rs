//! Reporting windows: opened by the clock, completed once, reopened for late changes.

use crate::etl_support::*;
use crate::payments_support::{
    days_ago, funded_loan, mock_payment_on, published, submit_and_post, wait_for_status, wait_until_idle,
};
use crate::support::{ApiClient, LendingFixture};
use jiff::{SignedDuration, Timestamp};
use onceward::messaging::schedule;
use onceward_ledger::{Account, credit, debit};
use onceward_lending::{Settings, etl::events::EtlJob, loans::postings};
use onceward_money::Minor;
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

async fn receive(client: &ApiClient<'_>, loan_id: Uuid, day: jiff::civil::Date, amount: i64) {
    let lines = vec![
        debit(Account::Cash, Minor::new(amount), "received"),
        credit(Account::LoanPrincipal, Minor::new(amount), "principal"),
    ];
    client.post_lines(loan_id, day, postings::PAYMENT, lines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_opens_ended_windows_and_the_last_shard_completes_them_once() {
    let fixture = LendingFixture::start().await;
    windows_are_completed_once(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_completed_over_rabbitmq() {
    if !onceward_testkit::left_out("rabbitmq") {
        let fixture = LendingFixture::start_on(Some(&onceward_testkit::rabbitmq_url())).await;
        windows_are_completed_once(&fixture).await;
    }
}

/// Waits until this many windows are completed: messages in transit are in no queue.
async fn completed(fixture: &LendingFixture, windows: i64) {
    let sql = "SELECT count(*) FROM lending.etl_window WHERE state = 'completed'";
    eventually("the windows are completed", || async {
        (fixture.query_value::<i64>(sql, &[]).await == windows).then_some(())
    })
    .await;
}

async fn windows_are_completed_once(fixture: &LendingFixture) {
    let client = fixture.client("acme");
    client.run_tick(time("2026-01-05T10:05:00Z")).await;
    completed(fixture, 1).await;
    let start = time("2026-01-05T10:00:00Z");
    let first = client.window(start).await;
    assert_eq!((&first["state"], &first["generation"], &first["loans"]), (&json!("completed"), &json!(1), &json!(0)));
    assert_eq!(first["windowEnd"], "2026-01-05T10:05:00Z");
    let shards: Vec<(&Value, &Value)> =
        first["shards"].as_array().unwrap().iter().map(|shard| (&shard["shard"], &shard["state"])).collect();
    let done = json!("done");
    assert_eq!(shards, [(&json!(0), &done), (&json!(1), &done), (&json!(2), &done), (&json!(3), &done)]);
    let jobs_keys = "SELECT string_agg(idempotency_key, ' ' ORDER BY idempotency_key) FROM onceward.outbox_messages
                     WHERE event_type = 'etl.job.v1'";
    let keys: String = fixture.query_value(jobs_keys, &[]).await;
    let expected: Vec<String> = (0..4).map(|shard| format!("etl-job:acme:2026-01-05T10:00:00Z:{shard}:1")).collect();
    assert_eq!(keys, expected.join(" "));

    // The same tick again, and one after half an hour without any: missed windows are opened, and none twice.
    client.run_tick(time("2026-01-05T10:05:00Z")).await;
    client.run_tick(time("2026-01-05T10:37:00Z")).await;
    completed(fixture, 7).await;
    assert_eq!(published(fixture, "etl.completed.event.v1").await, 7);
    assert_eq!(fixture.count_audit_entries("acme", "etl_window_completed").await, 7);
    let latest = client.get("/api/etl/status?window=latest").await.with_status(200);
    assert_eq!((&latest["windowStart"], &latest["state"]), (&json!("2026-01-05T10:30:00Z"), &json!("completed")));
    assert_eq!(client.window(start).await, first);
    let topics = "SELECT string_agg(DISTINCT topic, ' ') FROM onceward.outbox_messages WHERE event_type LIKE 'etl.%'";
    let topics: String = fixture.query_value(topics, &[]).await;
    assert_eq!(
        topics,
        "ls.commands:tenant.acme.etl.job ls.events:tenant.acme.etl.completed ls.schedules:tenant.acme.etl.schedule"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_publishes_one_tick_per_tenant_with_its_own_key() {
    let fixture = LendingFixture::without_consumers(Settings::default(), None).await;
    fixture
        .owner
        .batch_execute("SELECT onceward.add_tenant(t) FROM unnest('{acme,globex}'::text[]) AS t")
        .await
        .unwrap();
    let timetables = fixture.platform.platform().schedules();
    let now = Timestamp::now();
    schedule::declare(fixture.platform.db(), timetables, now - minutes(12)).await.unwrap();
    schedule::tick(fixture.platform.db(), timetables).await.unwrap();
    schedule::tick(fixture.platform.db(), timetables).await.unwrap();
    let keys = "SELECT string_agg(idempotency_key, ' ' ORDER BY tenant_id) FROM onceward.outbox_messages
                WHERE event_type = 'etl.schedule.v1'";
    let keys: String = fixture.query_value(keys, &[]).await;
    let tick = window_of(now);
    assert_eq!(keys, format!("etl-sched:acme:{tick} etl-sched:globex:{tick}"), "one tick, for the latest missed time");
    let etl = timetables.iter().find(|timetable| timetable.name() == "lending-etl").unwrap();
    assert_eq!(etl.next_after(now).unwrap(), tick + WINDOW);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_payments_and_returns_reopen_their_windows() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 9, json!({})).await;
    let quiet_loan = funded_loan(&client, 9, json!({})).await;
    let on_time = submit_and_post(&client, &mock_payment_on(loan_id, "on time", 5_000, days_ago(3))).await;
    submit_and_post(&client, &mock_payment_on(quiet_loan, "quiet", 700, days_ago(3))).await;
    let last_window = |days| midnight_after(days_ago(days)) - WINDOW;
    let now = Timestamp::now();
    client.run_tick(now).await;
    assert_facts_match_ledger(&fixture, "acme", window_of(now)).await;
    let third = client.window(last_window(3)).await;
    assert_eq!(
        (&third["generation"], &third["payments"], &third["loans"]),
        (&json!(1), &json!(2), &json!(2)),
        "{third}"
    );

    // This payment takes effect before the first one, which is reversed and posted again on its own day.
    submit_and_post(&client, &mock_payment_on(loan_id, "late", 4_000, days_ago(5))).await;
    let now = Timestamp::now();
    client.run_tick(now).await;
    assert_facts_match_ledger(&fixture, "acme", window_of(now)).await;
    let fifth = client.window(last_window(5)).await;
    assert_eq!(
        (&fifth["generation"], &fifth["payments"]),
        (&json!(1), &json!(1)),
        "the window was not opened before: {fifth}"
    );
    let third = client.window(last_window(3)).await;
    assert_eq!((&third["generation"], &third["payments"]), (&json!(2), &json!(4)), "{third}");
    let again = |window: &Value| {
        window["shards"].as_array().unwrap().iter().filter(|shard| shard["generation"] == window["generation"]).count()
    };
    assert_eq!(again(&third), 1, "only the shard of its loan is built again");
    assert_eq!(fixture.count_audit_entries("acme", "etl_window_reopened").await, 1);

    let payment_id = on_time["payment_id"].as_str().unwrap();
    client.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(&client, payment_id.parse().unwrap(), "returned").await;
    let now = Timestamp::now();
    client.run_tick(now).await;
    assert_facts_match_ledger(&fixture, "acme", window_of(now)).await;
    assert_eq!(client.window(last_window(3)).await["generation"], 3);
    let received =
        "SELECT sum(amount_minor)::bigint FROM reporting.payment_fact WHERE effective_date = $1 AND loan_id = $2";
    assert_eq!(fixture.query_value::<i64>(received, &[&days_ago(3), &loan_id]).await, 0);
    assert_eq!(fixture.query_value::<i64>(received, &[&days_ago(3), &quiet_loan]).await, 700);
    let of_payment = "SELECT count(*) FROM reporting.payment_fact WHERE payment_id = $1";
    let payment_id: Uuid = payment_id.parse().unwrap();
    assert_eq!(fixture.query_value::<i64>(of_payment, &[&payment_id]).await, 4, "posted, reversed, posted, reversed");

    // At the end of a day the facts match the ledger as of that day, and now they match its balances.
    for day in [days_ago(5), days_ago(3), days_ago(1)] {
        assert_matches_ledger_as_of(&client, midnight_after(day), day).await;
    }
    client.run_tick(Timestamp::now()).await;
    assert_eq!(client.window(last_window(3)).await["generation"], 3, "without new events nothing is built again");
}

/// Compares the facts at the end of a window with the ledger as of that day.
async fn assert_matches_ledger_as_of(client: &ApiClient<'_>, end: Timestamp, day: jiff::civil::Date) {
    let sql = "SELECT count(*) FROM (
            SELECT loan_id, account, sum(debit_minor - credit_minor)::bigint AS balance FROM ledger.ledger_entry
            WHERE tenant_id = $1 AND effective_date <= $3 GROUP BY loan_id, account HAVING sum(debit_minor - credit_minor) <> 0) l
        FULL JOIN (SELECT loan_id, account, balance_minor AS balance FROM reporting.balances_at($2) WHERE balance_minor <> 0) f
        USING (loan_id, account) WHERE l.balance IS DISTINCT FROM f.balance";
    let owner = &client.fixture.owner;
    owner.execute("SELECT set_config('onceward.tenant_id', $1, false)", &[&client.tenant]).await.unwrap();
    assert_eq!(client.fixture.query_value::<i64>(sql, &[&client.tenant, &end, &day]).await, 0, "{day}");
    let some: i64 = client.fixture.query_value("SELECT count(*) FROM reporting.balances_at($1)", &[&end]).await;
    assert!(some > 0, "{day}: there are balances to compare");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_commits_after_its_window_was_built_is_reported() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let before = Timestamp::now();
    let loan_id = funded_loan(&client, 9, json!({})).await;
    let noon = midnight_after(days_ago(2)) - minutes(12 * 60);
    set_posting_time(&fixture, before, noon - minutes(60)).await;
    let before = Timestamp::now();
    receive(&client, loan_id, days_ago(2), 100).await;
    set_posting_time(&fixture, before, noon + minutes(1)).await;
    client.run_tick(noon + minutes(10)).await;
    let window = client.window(noon).await;
    assert_eq!((&window["generation"], &window["payments"]), (&json!(1), &json!(1)));

    // Its transaction began in the same window and took longer; another one ended in time and is reported first.
    let before = Timestamp::now();
    receive(&client, loan_id, days_ago(2), 30).await;
    set_posting_time(&fixture, before, noon + minutes(16)).await;
    client.run_tick(noon + minutes(20)).await;
    let before = Timestamp::now();
    receive(&client, loan_id, days_ago(2), 20).await;
    set_posting_time(&fixture, before, noon + minutes(2)).await;
    client.run_tick(noon + minutes(25)).await;
    let window = client.window(noon).await;
    assert_eq!((&window["generation"], &window["payments"]), (&json!(2), &json!(2)));
    let later = client.window(noon + minutes(15)).await;
    assert_eq!((&later["generation"], &later["payments"]), (&json!(2), &json!(1)), "its balance has changed");
    assert_facts_match_ledger(&fixture, "acme", noon + minutes(25)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_were_never_opened_become_dead_letters_and_old_ones_are_ignored() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.run_tick(time("2026-01-05T10:05:00Z")).await;
    let window_start = time("2026-01-05T10:00:00Z");
    let job = |shard, generation| EtlJob { window_start, shard, generation };
    client.publish_jobs(&[job(0, 1), job(3, 1), job(0, 2), job(4, 1)]).await;
    wait_until_idle(&fixture).await;
    let dead: i64 =
        fixture.query_value("SELECT count(*) FROM onceward.dead_letters WHERE queue = 'etl.job.v1'", &[]).await;
    assert_eq!(dead, 2, "another generation and another shard");
    assert_eq!(published(&fixture, "etl.completed.event.v1").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_beyond_one_batch_is_split_into_parts() {
    let settings = Settings { etl_shards: 1, ..Settings::default() };
    let mut fixture = LendingFixture::without_consumers(settings, None).await;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 150, json!({})).await;
    let tx = client.begin().await;
    let loan = client.lock(&tx, loan_id).await;
    let events: Vec<onceward_ledger::NewLedgerEvent> = (0..6_000)
        .map(|n| onceward_ledger::NewLedgerEvent {
            event_id: Uuid::now_v7(),
            loan_id,
            effective_date: days_ago(120 - n % 120),
            correlation_id: format!("many:{n}"),
            schema: postings::PAYMENT.to_owned(),
            currency: loan.currency,
            lines: vec![debit(Account::Cash, Minor::new(1), ""), credit(Account::Suspense, Minor::new(1), "")],
            note: None,
        })
        .collect();
    for events in events.chunks(onceward_ledger::MAX_EVENTS) {
        onceward_ledger::post_all(&tx, events).await.unwrap();
    }
    tx.commit().await.unwrap();
    let at = Timestamp::now();
    client.run_tick(at).await;
    assert_facts_match_ledger(&fixture, "acme", window_of(at)).await;
    let parts = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'etl.schedule.v1'";
    assert!(fixture.query_value::<i64>(parts, &[]).await >= 3, "two scans, and a hundred windows at a time");
    let most = "SELECT max(generation) FROM lending.etl_window";
    assert_eq!(fixture.query_value::<i32>(most, &[]).await, 1, "windows are opened only after everything was scanned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_window_is_explained_and_other_tenants_windows_are_hidden() {
    let fixture = LendingFixture::start().await;
    let (client, other) = (fixture.client("acme"), fixture.client("globex"));
    let none = client.get("/api/etl/status").await;
    assert_eq!(none.status, 404);
    assert!(none.body["detail"].as_str().unwrap().contains("next tick"), "{}", none.body);
    client.run_tick(time("2026-01-05T10:05:00Z")).await;
    client.get("/api/etl/status").await.with_status(200);
    other.get("/api/etl/status").await.with_status(404);
    other.get("/api/etl/status?window=2026-01-05T10:00:00Z").await.with_status(404);
    let within = client.get("/api/etl/status?window=2026-01-05T10:02:00Z").await.with_status(404);
    assert!(within["detail"].as_str().unwrap().contains("begins at 2026-01-05T10:00:00Z"), "{within}");
    client.get("/api/etl/status?window=yesterday").await.with_status(400);
    let roles = ["loans:read".to_owned()];
    let token = fixture.platform.token_for("acme", "clerk", &roles, 600);
    let request = client
        .request(reqwest::Method::GET, "/api/etl/status")
        .headers([(reqwest::header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())].into_iter().collect());
    onceward_testkit::HttpResponse::to(request).await.with_status(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_waits_for_transactions_that_began_in_its_window() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let at = Timestamp::now();
    client.publish_tick(at).await;
    eventually("the window is opened", || async { (fixture.count("lending.etl_window").await > 0).then_some(()) })
        .await;
    let opened_at: Timestamp = fixture.query_value("SELECT opened_at FROM lending.etl_window", &[]).await;
    assert!(opened_at.duration_since(at) >= SignedDuration::from_secs(4), "the window was opened too early");
    wait_until_idle(&fixture).await;
    assert_eq!(fixture.count("onceward.dead_letters").await, 0);
}
