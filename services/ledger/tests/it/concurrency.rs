//! Many writers on few loans: everything still balances, and no transaction deadlocks.

use crate::support::{DAY, LedgerFixture, assert_consistent, begin, event, minor, payment};
use onceward_db::Db;
use onceward_ledger::{Account, LedgerError, NewLedgerEvent, balances_locked, credit, debit, post, post_all, reverse};
use onceward_money::{Currency, Minor};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::sync::Arc;
use tokio::task::JoinSet;
use uuid::Uuid;

const LOANS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Posts one or more events in one transaction.
    Post(Vec<Posting>),
    /// Reverses the nth event that is known by then.
    Reverse(usize),
    /// Reads a loan under lock and posts an amount based on its balance.
    Sweep(usize),
    /// Posts and rolls back.
    Abandon(usize, i64),
}

#[derive(Clone, Debug)]
struct Posting {
    loan: usize,
    /// Accounts and amounts.
    debits: Vec<(usize, i64)>,
    credit: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let account = 0..Account::ALL.len();
    let debits = prop::collection::vec((account.clone(), 1..10_000_i64), 1..4);
    let one = (0..LOANS, debits, account).prop_map(|(loan, debits, credit)| Posting { loan, debits, credit });
    prop_oneof![
        6 => prop::collection::vec(one, 1..4).prop_map(Step::Post),
        3 => any::<usize>().prop_map(Step::Reverse),
        1 => (0..LOANS).prop_map(Step::Sweep),
        1 => (0..LOANS, 1..10_000_i64).prop_map(|(loan, amount)| Step::Abandon(loan, amount)),
    ]
}

/// State shared by the tasks of one case.
struct Case {
    db: Db,
    tenant: String,
    loans: Vec<Uuid>,
    known: Mutex<Vec<Uuid>>,
}

impl Case {
    async fn run(&self, steps: Vec<Step>) {
        for step in steps {
            self.step(&step).await;
        }
    }

    async fn step(&self, step: &Step) {
        let tx = begin(&self.db, &self.tenant).await;
        match step {
            Step::Post(events) => {
                let events: Vec<NewLedgerEvent> = events.iter().map(|event| self.event(event)).collect();
                post_all(&tx, &events).await.expect("the postings succeed");
                tx.commit().await.expect("the commit succeeds");
                self.known.lock().extend(events.iter().map(|event| event.event_id));
            }
            Step::Reverse(nth) => {
                let Some(event_id) = self.nth_known(*nth) else { return };
                let reversal = Uuid::now_v7();
                match reverse(&tx, event_id, reversal, DAY, &reversal.to_string(), None).await {
                    Ok(_) => self.known.lock().push(reversal),
                    Err(LedgerError::AlreadyReversed { .. } | LedgerError::NotFound { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                tx.commit().await.expect("the commit succeeds");
            }
            Step::Sweep(loan) => {
                let loan = self.loans[*loan];
                let found = balances_locked(&tx, loan, Currency::USD).await.expect("balances");
                let cash = found.get(Account::Cash);
                if cash.is_positive() {
                    let lines = vec![debit(Account::Suspense, cash, ""), credit(Account::Cash, cash, "")];
                    post(&tx, &event(loan, DAY, lines)).await.expect("the posting succeeds");
                    let after = balances_locked(&tx, loan, Currency::USD).await.expect("balances");
                    assert_eq!(after.get(Account::Cash), Minor::ZERO, "another transaction posted despite the lock");
                }
                tx.commit().await.expect("the commit succeeds");
            }
            Step::Abandon(loan, amount) => {
                post(&tx, &payment(self.loans[*loan], *amount)).await.expect("the posting succeeds");
                tx.rollback().await.expect("it is undone");
            }
        }
    }

    fn event(&self, posting: &Posting) -> NewLedgerEvent {
        let total = posting.debits.iter().map(|(_, amount)| amount).sum();
        let debits = posting.debits.iter().map(|(account, amount)| debit(Account::ALL[*account], minor(*amount), ""));
        let lines = debits.chain([credit(Account::ALL[posting.credit], minor(total), "")]).collect();
        event(self.loans[posting.loan], DAY, lines)
    }

    fn nth_known(&self, nth: usize) -> Option<Uuid> {
        let known = self.known.lock();
        (!known.is_empty()).then(|| known[nth % known.len()])
    }
}

#[test]
fn concurrent_random_postings_and_reversals_always_balance() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let ledger = runtime.block_on(LedgerFixture::new());
    let config =
        ProptestConfig { cases: 16, failure_persistence: None, max_shrink_iters: 64, ..ProptestConfig::default() };
    let tasks = prop::collection::vec(prop::collection::vec(step(), 1..20), 2..8);
    proptest!(config, |(tasks in tasks)| {
        runtime.block_on(async {
            let case = Arc::new(Case {
                db: ledger.db.clone(),
                tenant: format!("case-{}", Uuid::now_v7()),
                loans: (0..LOANS).map(|_| Uuid::now_v7()).collect(),
                known: Mutex::default(),
            });
            let mut running = JoinSet::new();
            for steps in tasks {
                let case = case.clone();
                running.spawn(async move { case.run(steps).await });
            }
            running.join_all().await;
            assert_consistent(&begin(&case.db, &case.tenant).await).await;
        });
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postings_to_two_loans_in_opposite_order_never_deadlock() {
    let ledger = LedgerFixture::new().await;
    let loans = [Uuid::now_v7(), Uuid::now_v7()];
    let mut running = JoinSet::new();
    for number in 0..6 {
        let db = ledger.db.clone();
        running.spawn(async move {
            for _ in 0..40 {
                let mut events: Vec<_> = loans.iter().map(|loan| payment(*loan, 1)).collect();
                if number % 2 == 1 {
                    events.reverse();
                    events.iter_mut().for_each(|event| event.lines.reverse());
                }
                let tx = begin(&db, "acme").await;
                post_all(&tx, &events).await.expect("no deadlock");
                tx.commit().await.expect("the commit succeeds");
            }
        });
    }
    running.join_all().await;
    for loan in loans {
        assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(240));
    }
    ledger.assert_consistent().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_first_postings_to_a_loan_lose_nothing() {
    let ledger = LedgerFixture::new().await;
    for _ in 0..10 {
        let loan = Uuid::now_v7();
        let mut running = JoinSet::new();
        for number in 0..6 {
            let db = ledger.db.clone();
            running.spawn(async move {
                let tx = begin(&db, "acme").await;
                if number % 2 == 0 {
                    balances_locked(&tx, loan, Currency::USD).await.expect("balances");
                }
                post(&tx, &payment(loan, 1)).await.expect("the posting succeeds");
                tx.commit().await.expect("the commit succeeds");
            });
        }
        running.join_all().await;
        assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(6));
    }
    ledger.assert_consistent().await;
}
