//! Shared helpers of the reporting tests: a settable clock, and an independent computation of every fact.

use crate::payments_support::wait_until_idle;
use crate::support::{ApiClient, LendingFixture};
use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};
use onceward::{NewMessage, TenantId, Tx, outbox};
use onceward_lending::etl::events::{EtlJob, EtlSchedule};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};
use tokio_postgres::Row;
use uuid::Uuid;

pub const WINDOW: SignedDuration = SignedDuration::from_mins(5);

/// Returns the end of a day.
pub fn midnight_after(day: Date) -> Timestamp {
    day.tomorrow().unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp()
}

/// Returns the beginning of the window that contains `time`.
pub fn window_of(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second() / WINDOW.as_secs() * WINDOW.as_secs()).unwrap()
}

impl ApiClient<'_> {
    /// Publishes the tick for a time.
    pub async fn publish_tick(&self, at: Timestamp) {
        let tick = EtlSchedule { schedule: "lending-etl".into(), scheduled_for: at, part: 0 };
        let mut tx = self.begin().await;
        outbox::publish(&mut tx, &tick).await.expect("the tick fits its contract");
        tx.commit().await.expect("the commit succeeds");
    }

    /// Publishes the tick and waits until all its work is done.
    pub async fn run_tick(&self, at: Timestamp) {
        self.publish_tick(at).await;
        wait_until_idle(self.fixture).await;
    }

    pub async fn window(&self, start: Timestamp) -> Value {
        self.get(&format!("/api/etl/status?window={start}")).await.with_status(200)
    }

    /// Publishes jobs as if they were delivered again.
    pub async fn publish_jobs(&self, jobs: &[EtlJob]) {
        let tenant = TenantId::new(&self.tenant).expect("a valid tenant");
        let mut tx = self.begin().await;
        for job in jobs {
            let message = NewMessage::from_event(job, &tenant).unwrap().once_per(Uuid::now_v7().to_string());
            outbox::send(&mut tx, message).await.expect("the job fits its contract");
        }
        tx.commit().await.expect("the commit succeeds");
    }
}

/// Returns every job that was ever published for a tenant, oldest first.
pub async fn jobs(fixture: &LendingFixture, tenant: &str) -> Vec<EtlJob> {
    let sql = "SELECT payload FROM onceward.outbox_messages WHERE tenant_id = $1 AND event_type = 'etl.job.v1'
               ORDER BY id";
    let rows = fixture.owner.query(sql, &[&tenant]).await.expect("the outbox can be read");
    rows.iter().map(|row| serde_json::from_value(row.get(0)).expect("a job")).collect()
}

/// Changes the posting time of everything that `tx` has posted to `at`, before any other transaction sees it.
pub async fn set_posting_time_in(tx: &Tx, at: Timestamp) {
    tx.execute("SET LOCAL ROLE NONE", &[]).await.expect("a test runs as the owner");
    tx.execute("SET LOCAL session_replication_role = replica", &[]).await.expect("the owner may do this");
    let sql = "UPDATE ledger.ledger_event SET created_at = $1 WHERE created_at = now()";
    tx.execute(sql, &[&at]).await.expect("the time is changed");
}

/// Changes the posting time of everything newer than `since` to `at`, bypassing the ledger, which refuses such a
/// change.
pub async fn set_posting_time(fixture: &LendingFixture, since: Timestamp, at: Timestamp) {
    fixture.owner.batch_execute("SET session_replication_role = replica").await.expect("the owner may do this");
    for sql in [
        "UPDATE ledger.ledger_event SET created_at = $2 WHERE created_at > $1",
        "UPDATE lending.loan_status_change SET changed_at = $2 WHERE changed_at > $1",
    ] {
        fixture.owner.execute(sql, &[&since, &at]).await.expect("the time is changed");
    }
    fixture.owner.batch_execute("SET session_replication_role = origin").await.expect("the setting is restored");
}

/// A ledger line as a report must see it.
struct ReportLine {
    event_id: Uuid,
    loan_id: Uuid,
    is_payment: bool,
    happened_at: Timestamp,
    account: String,
    moved: i64,
}

fn line(row: &Row) -> ReportLine {
    let (set_posting_time, day): (Timestamp, Date) = (row.get("created_at"), row.get("effective_date"));
    let first = day.to_zoned(TimeZone::UTC).unwrap().timestamp();
    let last = midnight_after(day) - SignedDuration::from_micros(1);
    let kind: &str = row.get("kind");
    ReportLine {
        event_id: row.get("event_id"),
        loan_id: row.get("loan_id"),
        is_payment: ["posting.payment.v1", "posting.prepayment.v1"].contains(&kind),
        happened_at: set_posting_time.clamp(first, last),
        account: row.get("account"),
        moved: row.get("moved"),
    }
}

type BalanceKey = (Timestamp, Uuid, String);

/// Checks that every fact of `tenant` about windows that ended by `at` matches the ledger, and that none is missing.
pub async fn assert_facts_match_ledger(fixture: &LendingFixture, tenant: &str, at: Timestamp) {
    let sql = "SELECT e.event_id, e.loan_id, e.created_at, e.effective_date, coalesce(o.schema, e.schema) AS kind,
                   n.account, n.debit_minor - n.credit_minor AS moved
               FROM ledger.ledger_event e
               JOIN ledger.ledger_entry n USING (tenant_id, event_id)
               LEFT JOIN ledger.ledger_event o ON o.tenant_id = e.tenant_id AND o.event_id = e.reverses
               WHERE e.tenant_id = $1";
    let rows = fixture.owner.query(sql, &[&tenant]).await.expect("the ledger can be read");
    let lines: Vec<ReportLine> = rows.iter().map(line).collect();
    let sql = "SELECT loan_id, changed_at FROM lending.loan_status_change WHERE tenant_id = $1";
    let changes = fixture.owner.query(sql, &[&tenant]).await.expect("status changes can be read");
    let changed = changes.iter().map(|row| (window_of(row.get(1)), row.get::<_, Uuid>(0)));
    let happened = lines.iter().map(|line| (window_of(line.happened_at), line.loan_id));
    let touched: BTreeSet<(Timestamp, Uuid)> =
        happened.chain(changed).filter(|(start, _)| *start + WINDOW <= at).collect();

    same("payments", payment_facts(fixture, tenant).await, &expected_payments(&lines, at));
    same("balances", balance_facts(fixture, tenant).await, &expected_balances(&lines, &touched));
    let sql = "SELECT window_start, loan_id FROM reporting.loan_fact WHERE tenant_id = $1";
    let loans = fixture.owner.query(sql, &[&tenant]).await.expect("facts can be read");
    assert_eq!(loans.iter().map(|row| (row.get(0), row.get(1))).collect::<BTreeSet<_>>(), touched, "loans");
    let sql = "SELECT coalesce(sum(received_minor), 0)::bigint FROM reporting.loan_fact WHERE tenant_id = $1";
    let received: i64 = fixture.query_value(sql, &[&tenant]).await;
    assert_eq!(received, expected_payments(&lines, at).values().map(|parts| parts.0).sum::<i64>(), "received");
}

/// Compares two maps, and reports only the differences.
fn same<K: Ord + Debug, V: PartialEq + Debug>(what: &str, found: BTreeMap<K, V>, expected: &BTreeMap<K, V>) {
    let wrong: Vec<_> = found.iter().filter(|(key, fact)| expected.get(key) != Some(fact)).collect();
    let missing: Vec<_> = expected.iter().filter(|(key, fact)| found.get(key) != Some(fact)).collect();
    assert!(wrong.is_empty() && missing.is_empty(), "{what}: found {wrong:?}, expected {missing:?}");
}

/// By window and event: the amount, and its part for principal.
type Payments = BTreeMap<(Timestamp, Uuid), (i64, i64)>;

fn expected_payments(lines: &[ReportLine], at: Timestamp) -> Payments {
    let mut expected = Payments::new();
    for line in lines.iter().filter(|line| line.is_payment && window_of(line.happened_at) + WINDOW <= at) {
        let parts = expected.entry((window_of(line.happened_at), line.event_id)).or_default();
        match line.account.as_str() {
            "cash" => parts.0 += line.moved,
            "loan_principal" => parts.1 -= line.moved,
            _ => {}
        }
    }
    expected
}

async fn payment_facts(fixture: &LendingFixture, tenant: &str) -> Payments {
    let sql = "SELECT window_start, event_id, amount_minor, to_principal_minor FROM reporting.payment_fact
               WHERE tenant_id = $1";
    let rows = fixture.owner.query(sql, &[&tenant]).await.expect("facts can be read");
    rows.iter().map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3)))).collect()
}

/// Returns, by window, loan and account, the change and the final balance.
fn expected_balances(lines: &[ReportLine], touched: &BTreeSet<(Timestamp, Uuid)>) -> BTreeMap<BalanceKey, (i64, i64)> {
    let mut expected = BTreeMap::new();
    for (start, loan_id) in touched {
        let mut accounts: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for line in lines.iter().filter(|line| line.loan_id == *loan_id && line.happened_at < *start + WINDOW) {
            let balance = accounts.entry(&line.account).or_default();
            balance.1 += line.moved;
            if line.happened_at >= *start {
                balance.0 += line.moved;
            }
        }
        let there = accounts.into_iter().filter(|(_, balance)| *balance != (0, 0));
        expected.extend(there.map(|(account, balance)| ((*start, *loan_id, account.to_owned()), balance)));
    }
    expected
}

async fn balance_facts(fixture: &LendingFixture, tenant: &str) -> BTreeMap<BalanceKey, (i64, i64)> {
    let sql = "SELECT window_start, loan_id, account, moved_minor, balance_minor FROM reporting.balance_fact
               WHERE tenant_id = $1";
    let rows = fixture.owner.query(sql, &[&tenant]).await.expect("facts can be read");
    rows.iter().map(|row| ((row.get(0), row.get(1), row.get(2)), (row.get(3), row.get(4)))).collect()
}
