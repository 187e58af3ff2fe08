//! A migrated database, and helpers to post and to read.

use jiff::civil::Date;
use onceward_db::{Db, Scope, Tx, migrate};
use onceward_envelope::TenantId;
use onceward_ledger::{Account, Balances, MIGRATIONS, NewLedgerEvent, NewLine, credit, debit};
use onceward_money::{Currency, Minor};
use onceward_testkit::{TestDb, eventually};
use uuid::Uuid;

pub const DAY: Date = Date::constant(2026, 3, 1);

/// A migrated database with the ledger of the tenant `acme`.
pub struct LedgerFixture {
    pub database: TestDb,
    pub db: Db,
}

impl LedgerFixture {
    pub async fn new() -> Self {
        let database = TestDb::empty().await;
        migrate::migrate(&database.config(), &[MIGRATIONS]).await.expect("the migrations apply");
        let db = Db::connect(database.config()).expect("valid settings");
        Self { database, db }
    }

    pub async fn begin(&self) -> Tx {
        begin(&self.db, "acme").await
    }

    /// Opens a connection as the owner, who is bound only by the tables' own rules, with the tenant set for functions.
    pub async fn owner(&self) -> tokio_postgres::Client {
        let owner = self.database.owner().await;
        owner.batch_execute("SET onceward.tenant_id = 'acme'").await.expect("a setting");
        owner
    }

    /// Posts in its own transaction.
    pub async fn post(&self, event: &NewLedgerEvent) {
        let tx = self.begin().await;
        onceward_ledger::post(&tx, event).await.expect("the posting succeeds");
        tx.commit().await.expect("the commit succeeds");
    }

    pub async fn balances(&self, loan_id: Uuid) -> Balances {
        onceward_ledger::balances(&self.begin().await, loan_id, Currency::USD).await.expect("balances")
    }

    /// Waits until some session waits for a lock.
    pub async fn wait_until_a_session_waits_for_a_lock(&self) {
        let owner = self.database.owner().await;
        let waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("a session waits for a lock", || async {
            let found = owner.query(waiting, &[]).await.expect("activity");
            (!found.is_empty()).then_some(())
        })
        .await;
    }

    /// Asserts that balances, events and the trial balance agree.
    pub async fn assert_consistent(&self) {
        assert_consistent(&self.begin().await).await;
    }
}

pub async fn begin(db: &Db, tenant: &str) -> Tx {
    db.begin(Scope::for_tenant(TenantId::new(tenant).expect("a valid tenant"))).await.expect("a connection")
}

pub async fn assert_consistent(tx: &Tx) {
    assert_eq!(onceward_ledger::differences(tx).await.expect("differences"), []);
    assert_eq!(onceward_ledger::unbalanced(tx).await.expect("unbalanced"), []);
    let trial = onceward_ledger::trial_balance(tx).await.expect("a trial balance");
    let total = Minor::sum(trial.iter().map(|line| line.balance().expect("it fits")));
    assert_eq!(total, Ok(Minor::ZERO), "{trial:?}");
}

pub fn minor(units: i64) -> Minor {
    Minor::new(units)
}

pub fn event(loan_id: Uuid, effective_date: Date, lines: Vec<NewLine>) -> NewLedgerEvent {
    let event_id = Uuid::now_v7();
    NewLedgerEvent {
        event_id,
        loan_id,
        effective_date,
        correlation_id: format!("test:{event_id}"),
        schema: "posting.test.v1".into(),
        currency: Currency::USD,
        lines,
        note: None,
    }
}

/// A payment received and applied to principal.
pub fn payment(loan_id: Uuid, amount: i64) -> NewLedgerEvent {
    let lines = vec![
        debit(Account::Cash, minor(amount), "payment received"),
        credit(Account::LoanPrincipal, minor(amount), "principal reduction"),
    ];
    event(loan_id, DAY, lines)
}
