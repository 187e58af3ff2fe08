//! Reporting windows: opened by the clock, completed once, opened again for what comes late.

use crate::etl_support::*;
use crate::payments_support::{becomes, days_ago, funded_loan, mock_on, posted, published, quiet};
use crate::support::{Desk, Office};
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

async fn receive(desk: &Desk<'_>, loan_id: Uuid, day: jiff::civil::Date, amount: i64) {
    let lines = vec![
        debit(Account::Cash, Minor::new(amount), "received"),
        credit(Account::LoanPrincipal, Minor::new(amount), "principal"),
    ];
    desk.post_lines(loan_id, day, postings::PAYMENT, lines).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_opens_what_is_over_and_the_last_shard_completes_it_once() {
    let office = Office::open().await;
    completed_once(&office).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_completed_over_rabbitmq() {
    if !onceward_testkit::left_out("rabbitmq") {
        let office = Office::open_on(Some(&onceward_testkit::rabbitmq_url())).await;
        completed_once(&office).await;
    }
}

/// Waits until so many windows are completed: messages on the wire are in no queue.
async fn completed(office: &Office, windows: i64) {
    let sql = "SELECT count(*) FROM lending.etl_window WHERE state = 'completed'";
    eventually("the windows are completed", || async { (office.ask::<i64>(sql, &[]).await == windows).then_some(()) })
        .await;
}

async fn completed_once(office: &Office) {
    let desk = office.desk("acme");
    desk.report(time("2026-01-05T10:05:00Z")).await;
    completed(office, 1).await;
    let start = time("2026-01-05T10:00:00Z");
    let first = desk.window(start).await;
    assert_eq!((&first["state"], &first["generation"], &first["loans"]), (&json!("completed"), &json!(1), &json!(0)));
    assert_eq!(first["windowEnd"], "2026-01-05T10:05:00Z");
    let shards: Vec<(&Value, &Value)> =
        first["shards"].as_array().unwrap().iter().map(|shard| (&shard["shard"], &shard["state"])).collect();
    let done = json!("done");
    assert_eq!(shards, [(&json!(0), &done), (&json!(1), &done), (&json!(2), &done), (&json!(3), &done)]);
    let jobs_keys = "SELECT string_agg(idempotency_key, ' ' ORDER BY idempotency_key) FROM onceward.outbox_messages
                     WHERE event_type = 'etl.job.v1'";
    let keys: String = office.ask(jobs_keys, &[]).await;
    let expected: Vec<String> = (0..4).map(|shard| format!("etl-job:acme:2026-01-05T10:00:00Z:{shard}:1")).collect();
    assert_eq!(keys, expected.join(" "));

    // The same tick again, and after half an hour without any: what was missed, and nothing twice.
    desk.report(time("2026-01-05T10:05:00Z")).await;
    desk.report(time("2026-01-05T10:37:00Z")).await;
    completed(office, 7).await;
    assert_eq!(published(office, "etl.completed.event.v1").await, 7);
    assert_eq!(office.audited("acme", "etl_window_completed").await, 7);
    let latest = desk.get("/api/etl/status?window=latest").await.with_status(200);
    assert_eq!((&latest["windowStart"], &latest["state"]), (&json!("2026-01-05T10:30:00Z"), &json!("completed")));
    assert_eq!(desk.window(start).await, first);
    let topics = "SELECT string_agg(DISTINCT topic, ' ') FROM onceward.outbox_messages WHERE event_type LIKE 'etl.%'";
    let topics: String = office.ask(topics, &[]).await;
    assert_eq!(
        topics,
        "ls.commands:tenant.acme.etl.job ls.events:tenant.acme.etl.completed ls.schedules:tenant.acme.etl.schedule"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_publishes_one_tick_a_tenant_by_its_own_key() {
    let office = Office::without_consumers(Settings::default(), None).await;
    office
        .owner
        .batch_execute("SELECT onceward.add_tenant(t) FROM unnest('{acme,globex}'::text[]) AS t")
        .await
        .unwrap();
    let timetables = office.platform.platform().timetables();
    let now = Timestamp::now();
    schedule::declare(office.platform.db(), timetables, now - minutes(12)).await.unwrap();
    schedule::tick(office.platform.db(), timetables, now).await.unwrap();
    schedule::tick(office.platform.db(), timetables, now).await.unwrap();
    let keys = "SELECT string_agg(idempotency_key, ' ' ORDER BY tenant_id) FROM onceward.outbox_messages
                WHERE event_type = 'etl.schedule.v1'";
    let keys: String = office.ask(keys, &[]).await;
    let tick = window_of(now);
    assert_eq!(keys, format!("etl-sched:acme:{tick} etl-sched:globex:{tick}"), "one, for the latest that was missed");
    let etl = timetables.iter().find(|timetable| timetable.name() == "lending-etl").unwrap();
    assert_eq!(etl.next_after(now).unwrap(), tick + WINDOW);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_payments_and_returns_open_their_windows_again() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 9, json!({})).await;
    let quiet_loan = funded_loan(&desk, 9, json!({})).await;
    let on_time = posted(&desk, &mock_on(loan_id, "on time", 5_000, days_ago(3))).await;
    posted(&desk, &mock_on(quiet_loan, "quiet", 700, days_ago(3))).await;
    let last_window = |days| midnight_after(days_ago(days)) - WINDOW;
    let now = Timestamp::now();
    desk.report(now).await;
    reconcile(&office, "acme", window_of(now)).await;
    let third = desk.window(last_window(3)).await;
    assert_eq!(
        (&third["generation"], &third["payments"], &third["loans"]),
        (&json!(1), &json!(2), &json!(2)),
        "{third}"
    );

    // It takes effect before the first, which is taken back and posted again on its own day.
    posted(&desk, &mock_on(loan_id, "late", 4_000, days_ago(5))).await;
    let now = Timestamp::now();
    desk.report(now).await;
    reconcile(&office, "acme", window_of(now)).await;
    let fifth = desk.window(last_window(5)).await;
    assert_eq!(
        (&fifth["generation"], &fifth["payments"]),
        (&json!(1), &json!(1)),
        "nothing had happened then: {fifth}"
    );
    let third = desk.window(last_window(3)).await;
    assert_eq!((&third["generation"], &third["payments"]), (&json!(2), &json!(4)), "{third}");
    let again = |window: &Value| {
        window["shards"].as_array().unwrap().iter().filter(|shard| shard["generation"] == window["generation"]).count()
    };
    assert_eq!(again(&third), 1, "only the shard of its loan is done again");
    assert_eq!(office.audited("acme", "etl_window_reopened").await, 1);

    let payment_id = on_time["payment_id"].as_str().unwrap();
    desk.post(&format!("/api/payments/{payment_id}/return"), &json!({"reason": "R01"})).await.with_status(202);
    becomes(&desk, payment_id.parse().unwrap(), "returned").await;
    let now = Timestamp::now();
    desk.report(now).await;
    reconcile(&office, "acme", window_of(now)).await;
    assert_eq!(desk.window(last_window(3)).await["generation"], 3);
    let received =
        "SELECT sum(amount_minor)::bigint FROM reporting.payment_fact WHERE effective_date = $1 AND loan_id = $2";
    assert_eq!(office.ask::<i64>(received, &[&days_ago(3), &loan_id]).await, 0);
    assert_eq!(office.ask::<i64>(received, &[&days_ago(3), &quiet_loan]).await, 700);
    let of_payment = "SELECT count(*) FROM reporting.payment_fact WHERE payment_id = $1";
    let payment_id: Uuid = payment_id.parse().unwrap();
    assert_eq!(office.ask::<i64>(of_payment, &[&payment_id]).await, 4, "posted, taken back, posted, taken back");

    // At the end of a day the facts are what the ledger says of that day, and now they are its balances.
    for day in [days_ago(5), days_ago(3), days_ago(1)] {
        same_as_the_ledger(&desk, midnight_after(day), day).await;
    }
    desk.report(Timestamp::now()).await;
    assert_eq!(desk.window(last_window(3)).await["generation"], 3, "nothing new, nothing again");
}

/// What the facts say of the end of a window, against the ledger as of that day.
async fn same_as_the_ledger(desk: &Desk<'_>, end: Timestamp, day: jiff::civil::Date) {
    let sql = "SELECT count(*) FROM (
            SELECT loan_id, account, sum(debit_minor - credit_minor)::bigint AS balance FROM ledger.ledger_entry
            WHERE tenant_id = $1 AND effective_date <= $3 GROUP BY loan_id, account HAVING sum(debit_minor - credit_minor) <> 0) l
        FULL JOIN (SELECT loan_id, account, balance_minor AS balance FROM reporting.balances_at($2) WHERE balance_minor <> 0) f
        USING (loan_id, account) WHERE l.balance IS DISTINCT FROM f.balance";
    let owner = &desk.office.owner;
    owner.execute("SELECT set_config('onceward.tenant_id', $1, false)", &[&desk.tenant]).await.unwrap();
    assert_eq!(desk.office.ask::<i64>(sql, &[&desk.tenant, &end, &day]).await, 0, "{day}");
    let some: i64 = desk.office.ask("SELECT count(*) FROM reporting.balances_at($1)", &[&end]).await;
    assert!(some > 0, "{day}: there is something to compare");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_committed_after_its_window_was_made_is_not_lost() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let before = Timestamp::now();
    let loan_id = funded_loan(&desk, 9, json!({})).await;
    let noon = midnight_after(days_ago(2)) - minutes(12 * 60);
    posted_at(&office, before, noon - minutes(60)).await;
    let before = Timestamp::now();
    receive(&desk, loan_id, days_ago(2), 100).await;
    posted_at(&office, before, noon + minutes(1)).await;
    desk.report(noon + minutes(10)).await;
    let window = desk.window(noon).await;
    assert_eq!((&window["generation"], &window["payments"]), (&json!(1), &json!(1)));

    // Its transaction began in the same window and took longer; another's ended in time and is looked at first.
    let before = Timestamp::now();
    receive(&desk, loan_id, days_ago(2), 30).await;
    posted_at(&office, before, noon + minutes(16)).await;
    desk.report(noon + minutes(20)).await;
    let before = Timestamp::now();
    receive(&desk, loan_id, days_ago(2), 20).await;
    posted_at(&office, before, noon + minutes(2)).await;
    desk.report(noon + minutes(25)).await;
    let window = desk.window(noon).await;
    assert_eq!((&window["generation"], &window["payments"]), (&json!(2), &json!(2)));
    let later = desk.window(noon + minutes(15)).await;
    assert_eq!((&later["generation"], &later["payments"]), (&json!(2), &json!(1)), "its balance has changed");
    reconcile(&office, "acme", noon + minutes(25)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_nobody_asked_for_are_dead_letters_and_old_ones_are_nothing() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.report(time("2026-01-05T10:05:00Z")).await;
    let window_start = time("2026-01-05T10:00:00Z");
    let job = |shard, generation| EtlJob { window_start, shard, generation };
    desk.deliver(&[job(0, 1), job(3, 1), job(0, 2), job(4, 1)]).await;
    quiet(&office).await;
    let dead: i64 = office.ask("SELECT count(*) FROM onceward.dead_letters WHERE queue = 'etl.job.v1'", &[]).await;
    assert_eq!(dead, 2, "another generation and another shard");
    assert_eq!(published(&office, "etl.completed.event.v1").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_one_turn_takes_is_cut_into_parts() {
    let settings = Settings { etl_shards: 1, ..Settings::default() };
    let mut office = Office::without_consumers(settings, None).await;
    office.platform.run_consumers();
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 150, json!({})).await;
    let tx = desk.begin().await;
    let loan = desk.lock(&tx, loan_id).await;
    let events: Vec<onceward_ledger::NewEvent> = (0..6_000)
        .map(|n| onceward_ledger::NewEvent {
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
    desk.report(at).await;
    reconcile(&office, "acme", window_of(at)).await;
    let parts = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'etl.schedule.v1'";
    assert!(office.ask::<i64>(parts, &[]).await >= 3, "two looks, and a hundred windows at a time");
    let most = "SELECT max(generation) FROM lending.etl_window";
    assert_eq!(office.ask::<i32>(most, &[]).await, 1, "windows wait until everything was looked at");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_that_is_not_there_is_explained_and_others_are_not_seen() {
    let office = Office::open().await;
    let (desk, other) = (office.desk("acme"), office.desk("globex"));
    let none = desk.get("/api/etl/status").await;
    assert_eq!(none.status, 404);
    assert!(none.body["detail"].as_str().unwrap().contains("next tick"), "{}", none.body);
    desk.report(time("2026-01-05T10:05:00Z")).await;
    desk.get("/api/etl/status").await.with_status(200);
    other.get("/api/etl/status").await.with_status(404);
    other.get("/api/etl/status?window=2026-01-05T10:00:00Z").await.with_status(404);
    let within = desk.get("/api/etl/status?window=2026-01-05T10:02:00Z").await.with_status(404);
    assert!(within["detail"].as_str().unwrap().contains("begins at 2026-01-05T10:00:00Z"), "{within}");
    desk.get("/api/etl/status?window=yesterday").await.with_status(400);
    let roles = ["loans:read".to_owned()];
    let token = office.platform.token_for("acme", "clerk", &roles, 600);
    let request = desk
        .request(reqwest::Method::GET, "/api/etl/status")
        .headers([(reqwest::header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())].into_iter().collect());
    crate::support::Answer::to(request).await.with_status(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_waits_a_moment_for_what_began_in_its_window() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let at = Timestamp::now();
    desk.report_tick(at).await;
    eventually("the window is opened", || async { (office.count("lending.etl_window").await > 0).then_some(()) }).await;
    let opened_at: Timestamp = office.ask("SELECT opened_at FROM lending.etl_window", &[]).await;
    assert!(opened_at.duration_since(at) >= SignedDuration::from_secs(4), "it was opened right away");
    quiet(&office).await;
    assert_eq!(office.count("onceward.dead_letters").await, 0);
}
