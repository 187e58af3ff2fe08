//! What must hold when everything is through: every accepted payment is posted once, and the books are right.

use super::{
    load::{Accepted, of_tenant},
    outsider::{Notes, Outsider},
    till::TENANTS,
};
use onceward::{Db, DbConfig, Scope, TenantId, audit};
use onceward_ledger::{self as ledger, Account};
use onceward_testkit::{eventually_within, leftovers};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio_postgres::{Client, Row, types::ToSql};
use uuid::Uuid;

/// A backlog may take minutes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until nothing is on its way any more.
pub async fn settle(owner: &Client, accepted: &[Accepted], outsider: Option<&Outsider>) {
    eventually_within(PATIENCE, "every payment is posted and seen", || async {
        let posted: i64 = one(owner, "SELECT count(*) FROM lending.payment_posting").await.get(0);
        let seen = outsider.is_none_or(|outsider| outsider.known() >= accepted.len());
        (posted.unsigned_abs() as usize >= accepted.len() && seen && leftovers(owner).await.is_empty()).then_some(())
    })
    .await;
}

/// Every promise, and nothing that nobody was promised.
pub async fn check(owner: &Client, url: &str, accepted: &[Accepted]) {
    let db = Db::connect(DbConfig::new(url)).expect("the settings are valid");
    for tenant in TENANTS {
        let promised = Promised::of(accepted, tenant);
        check_intake(owner, &promised).await;
        check_postings(owner, &promised).await;
        check_conflicts(owner, &promised).await;
        check_books(&db, &promised).await;
        check_trail(owner, &db, &promised).await;
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
        assert_eq!(one(owner, sql).await.get::<_, i64>(0), 0, "there is {what}");
    }
}

/// The consumer outside knows of every payment once, with the tenant, loan and amount that it was promised with.
pub fn check_seen(notes: &Notes, accepted: &[Accepted]) {
    let mut seen: Vec<(&str, Uuid, Uuid, i64)> = notes
        .postings
        .values()
        .map(|posting| (posting.tenant.as_str(), posting.payment_id, posting.loan_id, posting.amount))
        .collect();
    let mut promised: Vec<(&str, Uuid, Uuid, i64)> = accepted
        .iter()
        .map(|Accepted { payment_id, payment, .. }| {
            (TENANTS[payment.tenant], *payment_id, payment.loan_id, payment.amount)
        })
        .collect();
    seen.sort_unstable();
    promised.sort_unstable();
    assert_eq!(seen.len(), promised.len(), "something was told twice, or not at all");
    assert!(seen == promised, "what was told is not what was accepted");
}

/// What one tenant was promised: by payment, its loan, amount and name.
struct Promised<'a> {
    tenant: &'static str,
    payments: BTreeMap<Uuid, &'a Accepted>,
}

impl<'a> Promised<'a> {
    fn of(accepted: &'a [Accepted], tenant: &'static str) -> Self {
        let payments: BTreeMap<Uuid, &Accepted> =
            of_tenant(accepted, tenant).map(|accepted| (accepted.payment_id, accepted)).collect();
        assert_eq!(payments.len(), of_tenant(accepted, tenant).count(), "two payments of {tenant} have one id");
        Self { tenant, payments }
    }

    fn sum(&self) -> i64 {
        self.payments.values().map(|accepted| accepted.payment.amount).sum()
    }

    /// Fails unless this is of a payment that was promised, for this loan, of this amount.
    fn check(&self, what: &str, payment_id: Uuid, loan_id: Uuid, amount: i64) {
        let promised = self.payments.get(&payment_id).unwrap_or_else(|| panic!("{what} of an unknown {payment_id}"));
        let promised = (promised.payment.loan_id, promised.payment.amount);
        assert_eq!((loan_id, amount), promised, "{what} of {payment_id} of {}", self.tenant);
    }
}

async fn check_intake(owner: &Client, promised: &Promised<'_>) {
    let sql = "SELECT i.payment_id, i.loan_id, i.amount_minor, v.is_valid
               FROM lending.payment_intake i LEFT JOIN lending.payment_validation v USING (tenant_id, payment_id)
               WHERE i.tenant_id = $1";
    let rows = all(owner, sql, &[&promised.tenant]).await;
    for row in &rows {
        promised.check("intake", row.get(0), row.get(1), row.get(2));
        assert_eq!(row.get::<_, Option<bool>>(3), Some(true), "a payment that was not found good");
    }
    assert_eq!(rows.len(), promised.payments.len(), "intake of {}", promised.tenant);
}

/// One event in the ledger for each, for its whole amount; one row about it; one fact, seen once by our own consumer.
async fn check_postings(owner: &Client, promised: &Promised<'_>) {
    let sql = "SELECT p.payment_id, e.loan_id, sum(l.debit_minor) FILTER (WHERE l.account = 'cash')::bigint,
                      sum(l.credit_minor)::bigint, e.finalized_at IS NOT NULL, e.correlation_id
               FROM lending.payment_posting p
               JOIN ledger.ledger_event e ON e.tenant_id = p.tenant_id AND e.event_id = p.event_id
               JOIN ledger.ledger_entry l ON l.tenant_id = e.tenant_id AND l.event_id = e.event_id
               WHERE p.tenant_id = $1 GROUP BY p.payment_id, e.loan_id, e.finalized_at, e.correlation_id";
    let rows = all(owner, sql, &[&promised.tenant]).await;
    for row in &rows {
        let payment_id: Uuid = row.get(0);
        promised.check("cash", payment_id, row.get(1), row.get(2));
        promised.check("what it paid", payment_id, row.get(1), row.get(3));
        assert!(row.get::<_, bool>(4), "a posting that is not final");
        assert_eq!(row.get::<_, &str>(5), format!("payment:{payment_id}"));
    }
    assert_eq!(rows.len(), promised.payments.len(), "postings of {}", promised.tenant);
    for sql in [
        "SELECT count(*) FROM ledger.ledger_event WHERE tenant_id = $1 AND correlation_id LIKE 'payment:%'",
        "SELECT count(*) FROM onceward.message_log WHERE tenant_id = $1 AND event_type = 'payment.posted' AND copy = 0",
        "SELECT count(*) FROM lending.payment_event WHERE tenant_id = $1 AND event_type = 'payment.posted.v1'",
        "SELECT count(DISTINCT payment_id) FROM lending.payment_event WHERE tenant_id = $1",
    ] {
        let count: i64 = all(owner, sql, &[&promised.tenant]).await[0].get(0);
        assert_eq!(count.unsigned_abs() as usize, promised.payments.len(), "{sql} of {}", promised.tenant);
    }
}

/// What was told differently is noted for the one who was told it, and for nobody else.
async fn check_conflicts(owner: &Client, promised: &Promised<'_>) {
    let rows =
        all(owner, "SELECT payment_id FROM lending.payment_conflict WHERE tenant_id = $1", &[&promised.tenant]).await;
    let noted: BTreeSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let expected: BTreeSet<Uuid> =
        promised.payments.values().filter(|known| known.is_conflict()).map(|known| known.payment_id).collect();
    assert_eq!((noted.len(), &noted), (rows.len(), &expected), "conflicts of {}", promised.tenant);
}

async fn check_books(db: &Db, promised: &Promised<'_>) {
    let tx = db.begin(Scope::tenant(TenantId::new(promised.tenant).expect("a tenant"))).await.expect("a transaction");
    assert_eq!(ledger::differences(&tx).await.expect("balances can be compared"), []);
    assert_eq!(ledger::unbalanced(&tx).await.expect("events can be added up"), []);
    let trial = ledger::trial_balance(&tx).await.expect("accounts can be added up");
    let total: i64 = trial.iter().map(|line| line.debits.get() - line.credits.get()).sum();
    assert_eq!(total, 0, "the books of {} do not balance", promised.tenant);
    let cash: Vec<(i64, i64)> = trial
        .iter()
        .filter(|line| line.account == Account::Cash)
        .map(|line| (line.debits.get(), line.credits.get()))
        .collect();
    assert_eq!(cash, [(promised.sum(), 0)], "cash of {}", promised.tenant);
    tx.rollback().await.expect("a rollback");
}

/// The chain is whole and has an entry for every step of every payment.
async fn check_trail(owner: &Client, db: &Db, promised: &Promised<'_>) {
    let tenant = TenantId::new(promised.tenant).expect("a tenant");
    let verified = audit::verify(db, &tenant, &audit::Heads::default(), |_| {}).await.expect("the trail can be read");
    assert_eq!(verified.broken, None);
    let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2";
    for step in ["payment_received", "payment_validated", "payment_posted"] {
        let count: i64 = all(owner, sql, &[&promised.tenant, &step]).await[0].get(0);
        assert_eq!(count.unsigned_abs() as usize, promised.payments.len(), "{step} of {}", promised.tenant);
    }
}

async fn one(owner: &Client, sql: &str) -> Row {
    owner.query_one(sql, &[]).await.expect("the database can be asked")
}

async fn all(owner: &Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
    owner.query(sql, params).await.expect("the database can be asked")
}
