//! The final checks, once everything has settled: every accepted payment is posted once, and the books are right.

use super::{
    external_consumer::{ExternalConsumer, ReceivedPostings},
    lending_client::TENANTS,
    load::{AcceptedPayment, of_tenant},
};
use onceward::{Db, DbConfig, Scope, TenantId, audit};
use onceward_ledger::{self as ledger, Account};
use onceward_testkit::{eventually_within, pending_work};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio_postgres::{Client, Row, types::ToSql};
use uuid::Uuid;

/// A backlog may take minutes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until nothing is in flight any more.
pub async fn wait_until_settled(
    owner: &Client,
    accepted: &[AcceptedPayment],
    external_consumer: Option<&ExternalConsumer>,
) {
    eventually_within(PATIENCE, "every payment is posted and received", || async {
        let posted: i64 = query_row(owner, "SELECT count(*) FROM lending.payment_posting").await.get(0);
        let seen =
            external_consumer.is_none_or(|external_consumer| external_consumer.posting_count() >= accepted.len());
        (posted.unsigned_abs() as usize >= accepted.len() && seen && pending_work(owner).await.is_empty()).then_some(())
    })
    .await;
}

/// Checks every accepted payment, and that nothing else exists.
pub async fn check(owner: &Client, url: &str, accepted: &[AcceptedPayment]) {
    let db = Db::connect(DbConfig::new(url)).expect("the settings are valid");
    for tenant in TENANTS {
        let expected_payments = ExpectedPayments::of(accepted, tenant);
        check_intake(owner, &expected_payments).await;
        check_postings(owner, &expected_payments).await;
        check_conflicts(owner, &expected_payments).await;
        check_ledger(&db, &expected_payments).await;
        check_audit_trail(owner, &db, &expected_payments).await;
    }
    for (what, sql) in [
        ("a dead letter", "SELECT count(*) FROM onceward.dead_letters"),
        ("a failed payment", "SELECT count(*) FROM onceward.message_log WHERE event_type = 'payment.failed'"),
        ("a payment posted again", "SELECT count(*) FROM lending.payment_repost"),
        (
            "an idempotency key published twice",
            "SELECT count(*) FROM (SELECT FROM onceward.outbox_messages
             GROUP BY tenant_id, idempotency_key HAVING count(*) > 1) AS twice",
        ),
    ] {
        assert_eq!(query_row(owner, sql).await.get::<_, i64>(0), 0, "there is {what}");
    }
}

/// Checks that the external consumer received every payment once, with its tenant, loan and amount.
pub fn check_received(postings: &ReceivedPostings, accepted: &[AcceptedPayment]) {
    let mut received: Vec<(&str, Uuid, Uuid, i64)> = postings
        .postings
        .values()
        .map(|posting| (posting.tenant.as_str(), posting.payment_id, posting.loan_id, posting.amount))
        .collect();
    let mut expected: Vec<(&str, Uuid, Uuid, i64)> = accepted
        .iter()
        .map(|AcceptedPayment { payment_id, payment, .. }| {
            (TENANTS[payment.tenant], *payment_id, payment.loan_id, payment.amount)
        })
        .collect();
    received.sort_unstable();
    expected.sort_unstable();
    assert_eq!(received.len(), expected.len(), "a posting was received twice, or not at all");
    assert!(received == expected, "the received postings are not those that were accepted");
}

/// One tenant's accepted payments: by payment id, its loan, amount and name.
struct ExpectedPayments<'a> {
    tenant: &'static str,
    payments: BTreeMap<Uuid, &'a AcceptedPayment>,
}

impl<'a> ExpectedPayments<'a> {
    fn of(accepted: &'a [AcceptedPayment], tenant: &'static str) -> Self {
        let payments: BTreeMap<Uuid, &AcceptedPayment> =
            of_tenant(accepted, tenant).map(|accepted| (accepted.payment_id, accepted)).collect();
        assert_eq!(payments.len(), of_tenant(accepted, tenant).count(), "two payments of {tenant} have one id");
        Self { tenant, payments }
    }

    fn sum(&self) -> i64 {
        self.payments.values().map(|accepted| accepted.payment.amount).sum()
    }

    /// Fails unless `payment_id` was accepted for this loan and amount.
    fn check(&self, what: &str, payment_id: Uuid, loan_id: Uuid, amount: i64) {
        let expected_payments =
            self.payments.get(&payment_id).unwrap_or_else(|| panic!("{what} of an unknown {payment_id}"));
        let expected_payments = (expected_payments.payment.loan_id, expected_payments.payment.amount);
        assert_eq!((loan_id, amount), expected_payments, "{what} of {payment_id} of {}", self.tenant);
    }
}

async fn check_intake(owner: &Client, expected_payments: &ExpectedPayments<'_>) {
    let sql = "SELECT i.payment_id, i.loan_id, i.amount_minor, v.is_valid
               FROM lending.payment_intake i LEFT JOIN lending.payment_validation v USING (tenant_id, payment_id)
               WHERE i.tenant_id = $1";
    let rows = query_rows(owner, sql, &[&expected_payments.tenant]).await;
    for row in &rows {
        expected_payments.check("intake", row.get(0), row.get(1), row.get(2));
        assert_eq!(row.get::<_, Option<bool>>(3), Some(true), "a payment that was not validated");
    }
    assert_eq!(rows.len(), expected_payments.payments.len(), "intake of {}", expected_payments.tenant);
}

/// Checks that each payment has one ledger event for its whole amount, one posting row, and one event that our own
/// consumer handled once.
async fn check_postings(owner: &Client, expected_payments: &ExpectedPayments<'_>) {
    let sql = "SELECT p.payment_id, e.loan_id, sum(l.debit_minor) FILTER (WHERE l.account = 'cash')::bigint,
                      sum(l.credit_minor)::bigint, e.finalized_at IS NOT NULL, e.correlation_id
               FROM lending.payment_posting p
               JOIN ledger.ledger_event e ON e.tenant_id = p.tenant_id AND e.event_id = p.event_id
               JOIN ledger.ledger_entry l ON l.tenant_id = e.tenant_id AND l.event_id = e.event_id
               WHERE p.tenant_id = $1 GROUP BY p.payment_id, e.loan_id, e.finalized_at, e.correlation_id";
    let rows = query_rows(owner, sql, &[&expected_payments.tenant]).await;
    for row in &rows {
        let payment_id: Uuid = row.get(0);
        expected_payments.check("cash", payment_id, row.get(1), row.get(2));
        expected_payments.check("credit", payment_id, row.get(1), row.get(3));
        assert!(row.get::<_, bool>(4), "a posting that is not finalized");
        assert_eq!(row.get::<_, &str>(5), format!("payment:{payment_id}"));
    }
    assert_eq!(rows.len(), expected_payments.payments.len(), "postings of {}", expected_payments.tenant);
    for sql in [
        "SELECT count(*) FROM ledger.ledger_event WHERE tenant_id = $1 AND correlation_id LIKE 'payment:%'",
        "SELECT count(*) FROM onceward.message_log WHERE tenant_id = $1 AND event_type = 'payment.posted' AND copy = 0",
        "SELECT count(*) FROM lending.payment_event WHERE tenant_id = $1 AND event_type = 'payment.posted.v1'",
        "SELECT count(DISTINCT payment_id) FROM lending.payment_event WHERE tenant_id = $1",
    ] {
        let count: i64 = query_rows(owner, sql, &[&expected_payments.tenant]).await[0].get(0);
        assert_eq!(
            count.unsigned_abs() as usize,
            expected_payments.payments.len(),
            "{sql} of {}",
            expected_payments.tenant
        );
    }
}

/// Checks that contradicting requests are recorded as conflicts for their own tenant, and for no other.
async fn check_conflicts(owner: &Client, expected_payments: &ExpectedPayments<'_>) {
    let rows = query_rows(
        owner,
        "SELECT payment_id FROM lending.payment_conflict WHERE tenant_id = $1",
        &[&expected_payments.tenant],
    )
    .await;
    let recorded: BTreeSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let expected: BTreeSet<Uuid> =
        expected_payments.payments.values().filter(|known| known.is_conflict()).map(|known| known.payment_id).collect();
    assert_eq!((recorded.len(), &recorded), (rows.len(), &expected), "conflicts of {}", expected_payments.tenant);
}

async fn check_ledger(db: &Db, expected_payments: &ExpectedPayments<'_>) {
    let tx = db
        .begin(Scope::for_tenant(TenantId::new(expected_payments.tenant).expect("a tenant")))
        .await
        .expect("a transaction");
    assert_eq!(ledger::differences(&tx).await.expect("balances can be compared"), []);
    assert_eq!(ledger::unbalanced(&tx).await.expect("events can be added up"), []);
    let trial = ledger::trial_balance(&tx).await.expect("accounts can be added up");
    let total: i64 = trial.iter().map(|line| line.debits.get() - line.credits.get()).sum();
    assert_eq!(total, 0, "the ledger of {} does not balance", expected_payments.tenant);
    let cash: Vec<(i64, i64)> = trial
        .iter()
        .filter(|line| line.account == Account::Cash)
        .map(|line| (line.debits.get(), line.credits.get()))
        .collect();
    assert_eq!(cash, [(expected_payments.sum(), 0)], "cash of {}", expected_payments.tenant);
    tx.rollback().await.expect("a rollback");
}

/// Checks that the chain is complete and has an entry for every step of every payment.
async fn check_audit_trail(owner: &Client, db: &Db, expected_payments: &ExpectedPayments<'_>) {
    let tenant = TenantId::new(expected_payments.tenant).expect("a tenant");
    let verified =
        audit::verify(db, &tenant, &audit::ExportedHeads::default(), |_| {}).await.expect("the trail can be read");
    assert_eq!(verified.broken, None);
    let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2";
    for step in ["payment_received", "payment_validated", "payment_posted"] {
        let count: i64 = query_rows(owner, sql, &[&expected_payments.tenant, &step]).await[0].get(0);
        assert_eq!(
            count.unsigned_abs() as usize,
            expected_payments.payments.len(),
            "{step} of {}",
            expected_payments.tenant
        );
    }
}

async fn query_row(owner: &Client, sql: &str) -> Row {
    owner.query_one(sql, &[]).await.expect("the query succeeds")
}

async fn query_rows(owner: &Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
    owner.query(sql, params).await.expect("the query succeeds")
}
