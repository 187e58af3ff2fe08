//! Balances as of a day: everything effective by then, whenever it was posted.

use crate::support::{DAY, LedgerFixture, begin, event, minor};
use jiff::{ToSpan, civil::Date};
use onceward_ledger::{
    Account, Balances, LedgerLine, NewLine, balances, balances_as_of, credit, debit, history, post_all, reverse,
};
use onceward_money::Currency;
use proptest::prelude::*;
use uuid::Uuid;

const DAYS: i64 = 6;

#[derive(Clone, Debug)]
struct Posting {
    day: i64,
    debit: usize,
    credit: usize,
    amount: i64,
    /// The day of its reversal.
    reversed: Option<i64>,
}

fn posting() -> impl Strategy<Value = Posting> {
    let accounts = 0..Account::ALL.len();
    (0..DAYS, accounts.clone(), accounts, 1..1_000_000_i64, prop::option::weighted(0.3, 0..DAYS))
        .prop_map(|(day, debit, credit, amount, reversed)| Posting { day, debit, credit, amount, reversed })
}

fn day(number: i64) -> Date {
    DAY.checked_add(number.days()).expect("a day")
}

fn lines_of(posting: &Posting) -> Vec<NewLine> {
    let amount = minor(posting.amount);
    vec![debit(Account::ALL[posting.debit], amount, ""), credit(Account::ALL[posting.credit], amount, "")]
}

/// Computes the balances at the end of a day from the postings alone.
fn expected(postings: &[Posting], until: i64) -> Balances {
    let mut balances = Balances::empty(Currency::USD);
    for posting in postings {
        let mut lines = lines_of(posting);
        if posting.day <= until {
            balances.apply(&lines).expect("it fits");
        }
        if posting.reversed.is_some_and(|day| day <= until) {
            lines.iter_mut().for_each(|line| line.side = line.side.opposite());
            balances.apply(&lines).expect("it fits");
        }
    }
    balances
}

fn as_given(line: LedgerLine) -> NewLine {
    NewLine { account: line.account, side: line.side, amount: line.amount, memo: line.memo }
}

async fn check(ledger: &LedgerFixture, postings: &[Posting]) -> Result<(), TestCaseError> {
    let tx = begin(&ledger.db, "acme").await;
    let loan = Uuid::now_v7();
    let events: Vec<_> = postings.iter().map(|posting| event(loan, day(posting.day), lines_of(posting))).collect();
    post_all(&tx, &events).await.expect("the postings succeed");
    for (posting, event) in postings.iter().zip(&events) {
        if let Some(on) = posting.reversed {
            let reversal = Uuid::now_v7();
            reverse(&tx, event.event_id, reversal, day(on), &reversal.to_string(), None)
                .await
                .expect("the reversal succeeds");
        }
    }
    for until in -1..=DAYS {
        let found = balances_as_of(&tx, loan, Currency::USD, day(until)).await.expect("balances");
        prop_assert_eq!(&found, &expected(postings, until));
        let mut replayed = Balances::empty(Currency::USD);
        for event in history(&tx, loan, Some(day(until)), None, 1_000).await.expect("a history") {
            replayed.apply(&event.lines.into_iter().map(as_given).collect::<Vec<_>>()).expect("it fits");
        }
        prop_assert_eq!(&found, &replayed);
    }
    prop_assert_eq!(balances(&tx, loan, Currency::USD).await.expect("balances"), expected(postings, DAYS));
    Ok(())
}

#[test]
fn balances_as_of_a_day_equal_the_replay_of_events_effective_by_then() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let ledger = runtime.block_on(LedgerFixture::new());
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(postings in prop::collection::vec(posting(), 0..20))| {
        runtime.block_on(check(&ledger, &postings))?;
    });
}
