//! Many writers on few loans: everything still balances, and nobody deadlocks.

use crate::support::{DAY, Ledger, assert_sound, begin, event, minor, payment};
use onceward_db::Db;
use onceward_ledger::{Account, LedgerError, NewEvent, balances_locked, credit, debit, post, post_all, reverse};
use onceward_money::{Currency, Minor};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;
use uuid::Uuid;

const LOANS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// One or more events in one transaction.
    Post(Vec<Posting>),
    /// The nth event that is known by then.
    Reverse(usize),
    /// Reads a loan under lock and posts what it says.
    Sweep(usize),
    /// Posts and thinks better of it.
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

/// What the tasks of one case share.
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
                let events: Vec<NewEvent> = events.iter().map(|event| self.event(event)).collect();
                post_all(&tx, &events).await.expect("they are posted");
                tx.commit().await.expect("it commits");
                self.known.lock().expect("no panic").extend(events.iter().map(|event| event.event_id));
            }
            Step::Reverse(nth) => {
                let Some(event_id) = self.nth_known(*nth) else { return };
                let reversal = Uuid::now_v7();
                match reverse(&tx, event_id, reversal, DAY, &reversal.to_string(), None).await {
                    Ok(_) => self.known.lock().expect("no panic").push(reversal),
                    Err(LedgerError::AlreadyReversed { .. } | LedgerError::NotFound { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                tx.commit().await.expect("it commits");
            }
            Step::Sweep(loan) => {
                let loan = self.loans[*loan];
                let found = balances_locked(&tx, loan, Currency::USD).await.expect("balances");
                let cash = found.get(Account::Cash);
                if cash.is_positive() {
                    let lines = vec![debit(Account::Suspense, cash, ""), credit(Account::Cash, cash, "")];
                    post(&tx, &event(loan, DAY, lines)).await.expect("it is posted");
                    let after = balances_locked(&tx, loan, Currency::USD).await.expect("balances");
                    assert_eq!(after.get(Account::Cash), Minor::ZERO, "somebody posted under the lock");
                }
                tx.commit().await.expect("it commits");
            }
            Step::Abandon(loan, amount) => {
                post(&tx, &payment(self.loans[*loan], *amount)).await.expect("it is posted");
                tx.rollback().await.expect("it is undone");
            }
        }
    }

    fn event(&self, posting: &Posting) -> NewEvent {
        let total = posting.debits.iter().map(|(_, amount)| amount).sum();
        let debits = posting.debits.iter().map(|(account, amount)| debit(Account::ALL[*account], minor(*amount), ""));
        let lines = debits.chain([credit(Account::ALL[posting.credit], minor(total), "")]).collect();
        event(self.loans[posting.loan], DAY, lines)
    }

    fn nth_known(&self, nth: usize) -> Option<Uuid> {
        let known = self.known.lock().expect("no panic");
        (!known.is_empty()).then(|| known[nth % known.len()])
    }
}

#[test]
fn random_postings_and_reversals_of_many_at_once_always_balance() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let ledger = runtime.block_on(Ledger::new());
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
            assert_sound(&begin(&case.db, &case.tenant).await).await;
        });
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_loans_posted_in_opposite_order_never_deadlock() {
    let ledger = Ledger::new().await;
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
                tx.commit().await.expect("it commits");
            }
        });
    }
    running.join_all().await;
    for loan in loans {
        assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(240));
    }
    ledger.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_use_of_a_loans_accounts_by_many_at_once_loses_nothing() {
    let ledger = Ledger::new().await;
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
                post(&tx, &payment(loan, 1)).await.expect("it is posted");
                tx.commit().await.expect("it commits");
            });
        }
        running.join_all().await;
        assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(6));
    }
    ledger.assert_sound().await;
}
