//! Posting, and reading it back.

use crate::support::{DAY, LedgerFixture, event, minor, payment};
use jiff::ToSpan;
use onceward_ledger::{
    Account, LedgerError, MAX_EVENTS, PostedEvent, PostingOutcome, Side, balances_locked, credit, debit, history, post,
    post_all,
};
use onceward_money::{Currency, Minor, MoneyError};
use uuid::Uuid;

#[tokio::test]
async fn a_payment_moves_the_accounts_it_names_and_is_found_in_the_history() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    let lines = vec![
        debit(Account::Cash, minor(700), "payment received"),
        credit(Account::InterestReceivable, minor(200), "interest collected"),
        credit(Account::LoanPrincipal, minor(500), "principal reduction"),
    ];
    let mut new = event(loan, DAY, lines);
    new.note = Some("by bank file".into());
    ledger.post(&new).await;

    let balances = ledger.balances(loan).await;
    assert_eq!(balances.get(Account::Cash), minor(700));
    assert_eq!(balances.get(Account::InterestReceivable), minor(-200));
    assert_eq!(balances.get(Account::LoanPrincipal), minor(-500));
    assert_eq!(balances.get(Account::Suspense), Minor::ZERO);

    let tx = ledger.begin().await;
    let found = history(&tx, loan, None, None, 10).await.expect("a history");
    assert_eq!(found.len(), 1);
    let posted = &found[0];
    assert_eq!((posted.event_id, posted.loan_id, posted.effective_date), (new.event_id, loan, DAY));
    assert_eq!((&posted.correlation_id, &posted.schema, &posted.note), (&new.correlation_id, &new.schema, &new.note));
    assert_eq!((posted.reverses, posted.reversed_by), (None, None));
    let lines: Vec<_> = posted.lines.iter().map(|l| (l.account, l.side, l.amount, l.memo.as_str())).collect();
    assert_eq!(lines[0], (Account::Cash, Side::Debit, minor(700), "payment received"));
    assert_eq!(lines[2], (Account::LoanPrincipal, Side::Credit, minor(500), "principal reduction"));
    assert_eq!(onceward_ledger::event(&tx, new.event_id).await.expect("a reading").as_ref(), Some(posted));
    assert_eq!(onceward_ledger::event(&tx, loan).await.expect("a reading"), None);
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn the_same_correlation_id_posts_once_and_leaves_the_transaction_usable() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    let first = payment(loan, 100);
    ledger.post(&first).await;
    let mut second = payment(loan, 900);
    second.correlation_id = first.correlation_id.clone();

    let tx = ledger.begin().await;
    for again in [&first, &second] {
        let refused = post(&tx, again).await.expect_err("it was posted before");
        assert!(matches!(refused, LedgerError::AlreadyPosted { event_id } if event_id == first.event_id), "{refused}");
        assert!(!refused.is_transient());
    }
    post(&tx, &payment(loan, 5)).await.expect("the transaction is still usable");
    tx.commit().await.expect("the commit succeeds");
    assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(105));
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn concurrent_posts_with_one_correlation_id_post_once() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    let (first, mut second) = (payment(loan, 100), payment(loan, 100));
    second.correlation_id = first.correlation_id.clone();
    let tx = ledger.begin().await;
    post(&tx, &first).await.expect("the posting succeeds");
    let other = ledger.begin().await;
    let commit = async {
        ledger.wait_until_a_session_waits_for_a_lock().await;
        tx.commit().await
    };
    let (refused, committed) = tokio::join!(post(&other, &second), commit);
    committed.expect("the commit succeeds");
    assert!(matches!(refused, Err(LedgerError::AlreadyPosted { event_id }) if event_id == first.event_id));
    other.commit().await.expect("the commit succeeds");
    assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(100));
}

#[tokio::test]
async fn of_many_events_those_posted_before_are_reported_and_the_others_are_posted() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    let old = payment(loan, 1);
    ledger.post(&old).await;
    let mut again = payment(loan, 10);
    again.correlation_id = old.correlation_id.clone();
    let fresh = payment(loan, 100);
    let mut twin = payment(loan, 1_000);
    twin.correlation_id = fresh.correlation_id.clone();

    let tx = ledger.begin().await;
    let outcomes = post_all(&tx, &[again, fresh.clone(), twin]).await.expect("the postings succeed");
    tx.commit().await.expect("the commit succeeds");
    let known = |event_id| PostingOutcome::AlreadyPosted { event_id };
    let posted = PostingOutcome::Posted(PostedEvent { event_id: fresh.event_id });
    assert_eq!(outcomes, [known(old.event_id), posted, known(fresh.event_id)]);
    assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(101));
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn a_full_batch_is_posted_by_one_call_and_a_larger_one_is_rejected() {
    let ledger = LedgerFixture::new().await;
    let loans: Vec<Uuid> = (0..7).map(|_| Uuid::now_v7()).collect();
    let mut events: Vec<_> = loans.iter().cycle().map(|loan| payment(*loan, 3)).take(MAX_EVENTS).collect();
    let tx = ledger.begin().await;
    assert_eq!(post_all(&tx, &events).await.expect("the postings succeed").len(), MAX_EVENTS);
    assert_eq!(post_all(&tx, &[]).await.expect("nothing to do"), []);
    events.push(payment(loans[0], 3));
    assert!(matches!(post_all(&tx, &events).await, Err(LedgerError::TooMany { count: 1_001 })));
    let twice = [events[0].clone(), events[0].clone()];
    assert!(matches!(post_all(&tx, &twice).await, Err(LedgerError::RepeatedId { .. })));
    tx.commit().await.expect("the commit succeeds");
    let trial = onceward_ledger::trial_balance(&ledger.begin().await).await.expect("a trial balance");
    let cash = trial.iter().find(|line| line.account == Account::Cash).expect("cash moved");
    assert_eq!((cash.debits, cash.credits, cash.currency), (minor(3_000), Minor::ZERO, Currency::USD));
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn a_balance_that_overflows_is_an_error_and_nothing_is_posted() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    ledger.post(&payment(loan, i64::MAX)).await;
    let overflow = post(&ledger.begin().await, &payment(loan, 1)).await;
    assert!(matches!(overflow, Err(LedgerError::Money(MoneyError::Overflow))), "{overflow:?}");
    // Two lines that fit separately and not together, in one event of several and on an account of their own.
    let half = i64::MAX / 2 + 1;
    let tx = ledger.begin().await;
    let other = Uuid::now_v7();
    let together = post_all(&tx, &[payment(other, half), payment(other, half)]).await;
    assert!(matches!(together, Err(LedgerError::Money(MoneyError::Overflow))), "{together:?}");
    drop(tx);
    assert_eq!(ledger.balances(loan).await.get(Account::Cash), Minor::MAX);
    assert_eq!(ledger.balances(other).await.get(Account::Cash), Minor::ZERO);
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn balances_computed_under_lock_match_the_posted_ones() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    for amount in [300, 20] {
        let tx = ledger.begin().await;
        let mut expected = balances_locked(&tx, loan, Currency::USD).await.expect("balances");
        let payment = payment(loan, amount);
        expected.apply(&payment.lines).expect("it fits");
        post(&tx, &payment).await.expect("the posting succeeds");
        tx.commit().await.expect("the commit succeeds");
        assert_eq!(ledger.balances(loan).await, expected);
    }
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn history_is_paged_in_the_order_of_effective_dates() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    let mut expected = Vec::new();
    // Posted backwards, two per day.
    for days in (0..4).rev() {
        for _ in 0..2 {
            let mut event = payment(loan, 1);
            event.effective_date = DAY.checked_add(days.days()).expect("a day");
            ledger.post(&event).await;
            expected.push((event.effective_date, event.event_id));
        }
    }
    expected.sort();
    let tx = ledger.begin().await;
    let (mut read, mut after) = (Vec::new(), None);
    for _ in 0..3 {
        let page = history(&tx, loan, None, after, 3).await.expect("a page");
        after = page.last().map(|event| event.cursor());
        read.extend(page.iter().map(|event| (event.effective_date, event.event_id)));
    }
    assert_eq!(read, expected);
    let until = history(&tx, loan, Some(expected[3].0), None, 100).await.expect("a page");
    assert_eq!(until.len(), 4);
}

/// The planner has no statistics here, as in every new ledger and for every new tenant.
#[tokio::test]
async fn the_rows_read_by_a_posting_do_not_grow_with_the_ledger() {
    let read = "
        SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables WHERE schemaname = 'ledger'";
    let ledger = LedgerFixture::new().await;
    let tx = ledger.begin().await;
    let mut totals = Vec::new();
    for _ in 0..200 {
        post(&tx, &payment(Uuid::now_v7(), 1)).await.expect("the posting succeeds");
        totals.push(tx.query_one(read, &[]).await.expect("a sum").get::<_, i64>(0));
    }
    let (first, last) = (totals[11] - totals[10], totals[199] - totals[198]);
    assert!(first > 0, "reading is counted");
    assert_eq!(first, last);
}
