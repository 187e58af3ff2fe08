//! The checks find changes that bypassed the ledger.

use crate::support::{LedgerFixture, begin, event, minor, payment};
use jiff::civil::date;
use onceward_ledger::{
    Account, BalanceDifference, NO_LOAN, UnbalancedEvent, balances, check, credit, debit, differences, tenants,
    unbalanced,
};
use onceward_money::{Currency, Minor};
use uuid::Uuid;

#[tokio::test]
async fn a_manipulated_balance_is_found_with_its_loan_and_account() {
    let ledger = LedgerFixture::new().await;
    let (touched, lost, sound) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    for loan in [touched, lost, sound] {
        ledger.post(&payment(loan, 100)).await;
    }
    ledger.assert_consistent().await;
    let owner = ledger.owner().await;
    let change = "UPDATE ledger.balance SET balance_minor = 101 WHERE loan_id = $1 AND account = 'cash'";
    assert_eq!(owner.execute(change, &[&touched]).await.expect("the owner may do this"), 1);
    let lose = "DELETE FROM ledger.balance WHERE loan_id = $1 AND account = 'loan_principal'";
    assert_eq!(owner.execute(lose, &[&lost]).await.expect("the owner may do this"), 1);
    let invent = "INSERT INTO ledger.balance VALUES ('acme', $1, 'suspense', 'USD', 7)";
    assert_eq!(owner.execute(invent, &[&lost]).await.expect("the owner may do this"), 1);

    let difference = |loan_id, account, stored: i64, recomputed: i64| BalanceDifference {
        loan_id,
        account,
        currency: Currency::USD,
        stored: minor(stored),
        recomputed: minor(recomputed),
    };
    let found = differences(&ledger.begin().await).await.expect("differences");
    let expected = [
        difference(touched, Account::Cash, 101, 100),
        difference(lost, Account::LoanPrincipal, 0, -100),
        difference(lost, Account::Suspense, 7, 0),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_manipulated_final_event_is_found() {
    let ledger = LedgerFixture::new().await;
    let (event, empty) = (payment(Uuid::now_v7(), 100), payment(Uuid::now_v7(), 5));
    ledger.post(&event).await;
    ledger.post(&empty).await;
    let owner = ledger.owner().await;
    owner.batch_execute("ALTER TABLE ledger.ledger_entry DISABLE TRIGGER USER").await.expect("the owner may do this");
    let forge = "UPDATE ledger.ledger_entry SET debit_minor = 150 WHERE event_id = $1 AND debit_minor > 0";
    assert_eq!(owner.execute(forge, &[&event.event_id]).await.expect("the triggers are disabled"), 1);
    let strip = "DELETE FROM ledger.ledger_entry WHERE event_id = $1";
    assert_eq!(owner.execute(strip, &[&empty.event_id]).await.expect("the triggers are disabled"), 2);
    let found = unbalanced(&ledger.begin().await).await.expect("unbalanced");
    let finding = |event: &onceward_ledger::NewLedgerEvent, currency, debits: i64, credits: i64| UnbalancedEvent {
        event_id: event.event_id,
        loan_id: event.loan_id,
        currency,
        debits: Minor::new(debits),
        credits: Minor::new(credits),
    };
    assert_eq!(found, [finding(&event, Some(Currency::USD), 150, 100), finding(&empty, None, 0, 0)]);
}

#[tokio::test]
async fn a_check_reports_all_findings_of_every_tenant_with_postings() {
    let ledger = LedgerFixture::new().await;
    assert_eq!(tenants(&ledger.db).await.expect("tenants"), []);
    let (ours, theirs) = (payment(Uuid::now_v7(), 100), payment(Uuid::now_v7(), 5));
    ledger.post(&ours).await;
    let tx = begin(&ledger.db, "globex").await;
    onceward_ledger::post(&tx, &theirs).await.expect("the posting succeeds");
    tx.commit().await.expect("the commit succeeds");
    let found = check(&ledger.begin().await).await.expect("a check");
    assert!(found.agrees() && !found.is_truncated(), "{found:?}");
    assert_eq!(found.trial_balance.len(), 2, "of one tenant only");

    let owner = ledger.owner().await;
    owner.batch_execute("ALTER TABLE ledger.ledger_entry DISABLE TRIGGER USER").await.expect("the owner may do this");
    let forge = "UPDATE ledger.ledger_entry SET debit_minor = 107 WHERE event_id = $1 AND debit_minor > 0";
    assert_eq!(owner.execute(forge, &[&ours.event_id]).await.expect("the triggers are disabled"), 1);
    // A tenant that lost all its events still has balances.
    let lose = "DELETE FROM ledger.ledger_entry WHERE event_id = $1";
    assert_eq!(owner.execute(lose, &[&theirs.event_id]).await.expect("the triggers are disabled"), 2);
    owner.batch_execute("ALTER TABLE ledger.ledger_event DISABLE TRIGGER USER").await.expect("the owner may do this");
    let lose = "DELETE FROM ledger.ledger_event WHERE event_id = $1";
    assert_eq!(owner.execute(lose, &[&theirs.event_id]).await.expect("the triggers are disabled"), 1);

    let names: Vec<String> = tenants(&ledger.db).await.expect("tenants").iter().map(ToString::to_string).collect();
    assert_eq!(names, ["acme", "globex"]);
    let found = check(&ledger.begin().await).await.expect("a check");
    assert_eq!((found.agrees(), found.imbalances()), (false, vec![(Currency::USD, 7)]));
    assert_eq!((found.differences.len(), found.unbalanced.len()), (1, 1));
    let found = check(&begin(&ledger.db, "globex").await).await.expect("a check");
    assert_eq!((found.differences.len(), found.imbalances()), (2, vec![]));
    assert!(!found.agrees());
}

#[tokio::test]
async fn money_of_no_loan_is_in_the_tenants_own_books_and_is_checked_too() {
    let ledger = LedgerFixture::new().await;
    let lines =
        vec![debit(Account::Cash, minor(70), "received"), credit(Account::UnappliedCash, minor(70), "unknown payer")];
    ledger.post(&event(NO_LOAN, date(2026, 1, 5), lines)).await;
    ledger.post(&payment(Uuid::now_v7(), 100)).await;
    ledger.assert_consistent().await;
    let own = balances(&ledger.begin().await, NO_LOAN, Currency::USD).await.expect("balances");
    assert_eq!((own.get(Account::Cash), own.normal(Account::UnappliedCash)), (minor(70), Ok(minor(70))));
    let trial = check(&ledger.begin().await).await.expect("a check").trial_balance;
    let credits = |account| trial.iter().find(|line| line.account == account).map(|line| line.credits);
    assert_eq!(credits(Account::UnappliedCash), Some(minor(70)));

    let owner = ledger.owner().await;
    let change = "UPDATE ledger.balance SET balance_minor = -71 WHERE loan_id = $1 AND account = 'unapplied_cash'";
    assert_eq!(owner.execute(change, &[&NO_LOAN]).await.expect("the owner may do this"), 1);
    let found = differences(&ledger.begin().await).await.expect("differences");
    assert_eq!(
        found.iter().map(|one| (one.loan_id, one.account)).collect::<Vec<_>>(),
        [(NO_LOAN, Account::UnappliedCash)]
    );
}
