//! Two tenants with the same loans, ids and correlation ids never see each other's data.

use crate::support::{DAY, LedgerFixture, assert_consistent, begin, minor, payment};
use onceward_db::Scope;
use onceward_ledger::{
    Account, LedgerError, balances, balances_as_of, balances_locked, history, post, reverse, trial_balance,
};
use onceward_money::{Currency, Minor};
use uuid::Uuid;

#[tokio::test]
async fn tenants_with_the_same_ids_are_separate() {
    let ledger = LedgerFixture::new().await;
    let loan = Uuid::now_v7();
    let mut event = payment(loan, 100);
    for (tenant, amount) in [("acme", 100), ("globex", 7)] {
        event.lines.iter_mut().for_each(|line| line.amount = minor(amount));
        let tx = begin(&ledger.db, tenant).await;
        post(&tx, &event).await.expect("it is new to this tenant");
        tx.commit().await.expect("the commit succeeds");
    }
    let tx = begin(&ledger.db, "globex").await;
    reverse(&tx, event.event_id, Uuid::now_v7(), DAY, "return:1", None).await.expect("one's own");
    tx.commit().await.expect("the commit succeeds");

    for (tenant, amount, events) in [("acme", minor(100), 1), ("globex", Minor::ZERO, 2), ("initech", Minor::ZERO, 0)] {
        let tx = begin(&ledger.db, tenant).await;
        for balances in [
            balances(&tx, loan, Currency::USD).await.expect("balances"),
            balances_as_of(&tx, loan, Currency::USD, DAY).await.expect("balances"),
            balances_locked(&tx, loan, Currency::USD).await.expect("balances"),
        ] {
            assert_eq!(balances.get(Account::Cash), amount, "{tenant}");
        }
        assert_eq!(history(&tx, loan, None, None, 10).await.expect("a history").len(), events, "{tenant}");
        assert_eq!(trial_balance(&tx).await.expect("a trial balance").is_empty(), events == 0, "{tenant}");
        assert_consistent(&tx).await;
    }
}

#[tokio::test]
async fn another_tenants_event_can_neither_be_read_nor_reversed() {
    let ledger = LedgerFixture::new().await;
    let event = payment(Uuid::now_v7(), 100);
    ledger.post(&event).await;
    let tx = begin(&ledger.db, "globex").await;
    assert_eq!(onceward_ledger::event(&tx, event.event_id).await.expect("a reading"), None);
    let refused = reverse(&tx, event.event_id, Uuid::now_v7(), DAY, "return:1", None).await;
    assert!(matches!(refused, Err(LedgerError::NotFound { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_posting_needs_a_tenant() {
    let ledger = LedgerFixture::new().await;
    let event = payment(Uuid::now_v7(), 100);
    let tx = ledger.db.begin(Scope::platform("test")).await.expect("a connection");
    assert!(matches!(post(&tx, &event).await, Err(LedgerError::Db(_))));
    assert!(balances_locked(&tx, event.loan_id, Currency::USD).await.is_err());
    assert!(reverse(&tx, event.event_id, Uuid::now_v7(), DAY, "return:1", None).await.is_err());
}
