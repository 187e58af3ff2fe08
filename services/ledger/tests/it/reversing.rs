//! Reversals: a mirror image, at most once.

use crate::support::{DAY, LedgerFixture, minor, payment};
use jiff::ToSpan;
use onceward_ledger::{Account, LedgerError, REVERSAL_SCHEMA, history, post, reverse};
use onceward_money::Minor;
use uuid::Uuid;

#[tokio::test]
async fn a_reversal_undoes_the_event_from_its_day_on() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    let (stored, returned) = (payment(loan, 5), payment(loan, 100));
    let tx = ledger.begin().await;
    post(&tx, &stored).await.expect("the posting succeeds");
    post(&tx, &returned).await.expect("the posting succeeds");
    let reversal = Uuid::now_v7();
    let day = DAY.checked_add(3.days()).expect("a day");
    let posted = reverse(&tx, returned.event_id, reversal, day, "return:1", Some("no funds")).await;
    assert_eq!(posted.expect("the reversal succeeds").event_id, reversal);
    tx.commit().await.expect("the commit succeeds");

    assert_eq!(ledger.balances(loan).await.get(Account::Cash), minor(5));
    let tx = ledger.begin().await;
    let events = history(&tx, loan, None, None, 10).await.expect("a history");
    let first = events.iter().find(|event| event.event_id == returned.event_id).expect("the payment");
    let last = events.last().expect("the reversal");
    assert_eq!((first.reverses, first.reversed_by), (None, Some(reversal)));
    assert_eq!((last.event_id, last.reverses, last.reversed_by), (reversal, Some(returned.event_id), None));
    assert_eq!((last.schema.as_str(), last.note.as_deref()), (REVERSAL_SCHEMA, Some("no funds")));
    for (line, mirrored) in first.lines.iter().zip(&last.lines) {
        assert_eq!(
            (line.account, line.side, line.amount),
            (mirrored.account, mirrored.side.opposite(), mirrored.amount)
        );
    }
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn a_second_reversal_names_the_first_and_leaves_the_transaction_usable() {
    let ledger = LedgerFixture::new().await;
    let event = payment(Uuid::now_v7(), 100);
    ledger.post(&event).await;
    let tx = ledger.begin().await;
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    reverse(&tx, event.event_id, first, DAY, "return:1", None).await.expect("the first time");
    for (id, correlation_id) in [(first, "return:1"), (second, "return:2")] {
        let again = reverse(&tx, event.event_id, id, DAY, correlation_id, None).await;
        assert!(matches!(again, Err(LedgerError::AlreadyReversed { by }) if by == first), "{again:?}");
    }
    // A reversal made by mistake is an event like any other.
    reverse(&tx, first, second, DAY, "return:3", None).await.expect("it is reversed in turn");
    tx.commit().await.expect("the commit succeeds");
    assert_eq!(ledger.balances(event.loan_id).await.get(Account::Cash), minor(100));
    ledger.assert_consistent().await;
}

#[tokio::test]
async fn an_unknown_event_or_a_used_correlation_id_is_not_reversed() {
    let ledger = LedgerFixture::new().await;
    let (event, other) = (payment(Uuid::now_v7(), 100), payment(Uuid::now_v7(), 1));
    ledger.post(&event).await;
    ledger.post(&other).await;
    let tx = ledger.begin().await;
    let nothing = Uuid::now_v7();
    let missing = reverse(&tx, nothing, Uuid::now_v7(), DAY, "return:1", None).await;
    assert!(matches!(missing, Err(LedgerError::NotFound { event_id }) if event_id == nothing), "{missing:?}");
    let taken = reverse(&tx, event.event_id, Uuid::now_v7(), DAY, &other.correlation_id, None).await;
    assert!(matches!(taken, Err(LedgerError::AlreadyPosted { event_id }) if event_id == other.event_id), "{taken:?}");
    tx.commit().await.expect("the commit succeeds");
    assert_eq!(ledger.balances(event.loan_id).await.get(Account::Cash), minor(100));
}

#[tokio::test]
async fn of_two_concurrent_reversals_one_fails() {
    let ledger = LedgerFixture::new().await;
    let event = payment(Uuid::now_v7(), 100);
    ledger.post(&event).await;
    let (one, two) = (ledger.begin().await, ledger.begin().await);
    let (first, second) = (Uuid::now_v7(), Uuid::now_v7());
    reverse(&one, event.event_id, first, DAY, "return:1", None).await.expect("the first");
    let commit = async {
        ledger.wait_until_a_session_waits_for_a_lock().await;
        one.commit().await
    };
    let again = reverse(&two, event.event_id, second, DAY, "return:2", None);
    let (refused, committed) = tokio::join!(again, commit);
    committed.expect("the commit succeeds");
    assert!(matches!(refused, Err(LedgerError::AlreadyReversed { by }) if by == first), "{refused:?}");
    two.commit().await.expect("the commit succeeds");
    assert_eq!(ledger.balances(event.loan_id).await.get(Account::Cash), Minor::ZERO);
    ledger.assert_consistent().await;
}
