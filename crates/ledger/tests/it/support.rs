//! A migrated database, and short ways to post and to look.

use jiff::civil::Date;
use onceward_db::{Db, Scope, Tx, migrate};
use onceward_envelope::TenantId;
use onceward_ledger::{Account, Balances, Line, MIGRATIONS, NewEvent, credit, debit};
use onceward_money::{Currency, Minor};
use onceward_testkit::{TestDb, eventually};
use uuid::Uuid;

pub const DAY: Date = Date::constant(2026, 3, 1);

/// A ledger of the tenant `acme`.
pub struct Ledger {
    pub database: TestDb,
    pub db: Db,
}

impl Ledger {
    pub async fn new() -> Self {
        let database = TestDb::empty().await;
        migrate::migrate(&database.config(), &[MIGRATIONS]).await.expect("the migrations apply");
        let db = Db::connect(database.config()).expect("valid settings");
        Self { database, db }
    }

    pub async fn begin(&self) -> Tx {
        begin(&self.db, "acme").await
    }

    /// A connection as the owner, whom only the tables' own rules bind, with the tenant set for functions.
    pub async fn owner(&self) -> tokio_postgres::Client {
        let owner = self.database.owner().await;
        owner.batch_execute("SET onceward.tenant_id = 'acme'").await.expect("a setting");
        owner
    }

    /// Posts in a transaction of its own.
    pub async fn post(&self, event: &NewEvent) {
        let tx = self.begin().await;
        onceward_ledger::post(&tx, event).await.expect("it is posted");
        tx.commit().await.expect("it commits");
    }

    pub async fn balances(&self, loan_id: Uuid) -> Balances {
        onceward_ledger::balances(&self.begin().await, loan_id, Currency::USD).await.expect("balances")
    }

    /// Waits until somebody waits for a lock.
    pub async fn somebody_waits(&self) {
        let owner = self.database.owner().await;
        let waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("somebody waits for a lock", || async {
            let found = owner.query(waiting, &[]).await.expect("activity");
            (!found.is_empty()).then_some(())
        })
        .await;
    }

    /// Everything agrees with everything.
    pub async fn assert_sound(&self) {
        assert_sound(&self.begin().await).await;
    }
}

pub async fn begin(db: &Db, tenant: &str) -> Tx {
    db.begin(Scope::tenant(TenantId::new(tenant).expect("a valid tenant"))).await.expect("a connection")
}

pub async fn assert_sound(tx: &Tx) {
    assert_eq!(onceward_ledger::differences(tx).await.expect("differences"), []);
    assert_eq!(onceward_ledger::unbalanced(tx).await.expect("unbalanced"), []);
    let trial = onceward_ledger::trial_balance(tx).await.expect("a trial balance");
    let total = Minor::sum(trial.iter().map(|line| line.balance().expect("it fits")));
    assert_eq!(total, Ok(Minor::ZERO), "{trial:?}");
}

pub fn minor(units: i64) -> Minor {
    Minor::new(units)
}

pub fn event(loan_id: Uuid, effective_date: Date, lines: Vec<Line>) -> NewEvent {
    let event_id = Uuid::now_v7();
    NewEvent {
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

/// Money that comes in and pays principal.
pub fn payment(loan_id: Uuid, amount: i64) -> NewEvent {
    let lines = vec![
        debit(Account::Cash, minor(amount), "payment received"),
        credit(Account::LoanPrincipal, minor(amount), "principal reduction"),
    ];
    event(loan_id, DAY, lines)
}
