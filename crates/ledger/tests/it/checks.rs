//! The checks find what somebody did behind the ledger's back.

use crate::support::{Ledger, begin, minor, payment};
use onceward_ledger::{Account, Difference, Unbalanced, check, differences, tenants, unbalanced};
use onceward_money::{Currency, Minor};
use uuid::Uuid;

#[tokio::test]
async fn a_planted_difference_is_found_with_its_loan_and_account() {
    let ledger = Ledger::new().await;
    let (touched, lost, sound) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    for loan in [touched, lost, sound] {
        ledger.post(&payment(loan, 100)).await;
    }
    ledger.assert_sound().await;
    let owner = ledger.owner().await;
    let change = "UPDATE ledger.balance SET balance_minor = 101 WHERE loan_id = $1 AND account = 'cash'";
    assert_eq!(owner.execute(change, &[&touched]).await.expect("the owner may"), 1);
    let lose = "DELETE FROM ledger.balance WHERE loan_id = $1 AND account = 'loan_principal'";
    assert_eq!(owner.execute(lose, &[&lost]).await.expect("the owner may"), 1);
    let invent = "INSERT INTO ledger.balance VALUES ('acme', $1, 'suspense', 'USD', 7)";
    assert_eq!(owner.execute(invent, &[&lost]).await.expect("the owner may"), 1);

    let difference = |loan_id, account, kept: i64, recomputed: i64| Difference {
        loan_id,
        account,
        currency: Currency::USD,
        kept: minor(kept),
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
async fn a_final_event_that_was_forged_is_found() {
    let ledger = Ledger::new().await;
    let (event, empty) = (payment(Uuid::now_v7(), 100), payment(Uuid::now_v7(), 5));
    ledger.post(&event).await;
    ledger.post(&empty).await;
    let owner = ledger.owner().await;
    owner.batch_execute("ALTER TABLE ledger.ledger_entry DISABLE TRIGGER USER").await.expect("the owner may");
    let forge = "UPDATE ledger.ledger_entry SET debit_minor = 150 WHERE event_id = $1 AND debit_minor > 0";
    assert_eq!(owner.execute(forge, &[&event.event_id]).await.expect("nothing stops it now"), 1);
    let strip = "DELETE FROM ledger.ledger_entry WHERE event_id = $1";
    assert_eq!(owner.execute(strip, &[&empty.event_id]).await.expect("nothing stops it now"), 2);
    let found = unbalanced(&ledger.begin().await).await.expect("unbalanced");
    let finding = |event: &onceward_ledger::NewEvent, currency, debits: i64, credits: i64| Unbalanced {
        event_id: event.event_id,
        loan_id: event.loan_id,
        currency,
        debits: Minor::new(debits),
        credits: Minor::new(credits),
    };
    assert_eq!(found, [finding(&event, Some(Currency::USD), 150, 100), finding(&empty, None, 0, 0)]);
}

#[tokio::test]
async fn all_that_a_check_finds_is_told_together_for_every_tenant_that_posted() {
    let ledger = Ledger::new().await;
    assert_eq!(tenants(&ledger.db).await.expect("tenants"), []);
    let (ours, theirs) = (payment(Uuid::now_v7(), 100), payment(Uuid::now_v7(), 5));
    ledger.post(&ours).await;
    let tx = begin(&ledger.db, "globex").await;
    onceward_ledger::post(&tx, &theirs).await.expect("it is posted");
    tx.commit().await.expect("it commits");
    let found = check(&ledger.begin().await).await.expect("a check");
    assert!(found.agrees() && !found.may_be_more(), "{found:?}");
    assert_eq!(found.trial_balance.len(), 2, "of one tenant only");

    let owner = ledger.owner().await;
    owner.batch_execute("ALTER TABLE ledger.ledger_entry DISABLE TRIGGER USER").await.expect("the owner may");
    let forge = "UPDATE ledger.ledger_entry SET debit_minor = 107 WHERE event_id = $1 AND debit_minor > 0";
    assert_eq!(owner.execute(forge, &[&ours.event_id]).await.expect("nothing stops it now"), 1);
    // Who lost all events has balances still.
    let lose = "DELETE FROM ledger.ledger_entry WHERE event_id = $1";
    assert_eq!(owner.execute(lose, &[&theirs.event_id]).await.expect("nothing stops it now"), 2);
    owner.batch_execute("ALTER TABLE ledger.ledger_event DISABLE TRIGGER USER").await.expect("the owner may");
    let lose = "DELETE FROM ledger.ledger_event WHERE event_id = $1";
    assert_eq!(owner.execute(lose, &[&theirs.event_id]).await.expect("nothing stops it now"), 1);

    let names: Vec<String> = tenants(&ledger.db).await.expect("tenants").iter().map(ToString::to_string).collect();
    assert_eq!(names, ["acme", "globex"]);
    let found = check(&ledger.begin().await).await.expect("a check");
    assert_eq!((found.agrees(), found.left_over()), (false, vec![(Currency::USD, 7)]));
    assert_eq!((found.differences.len(), found.unbalanced.len()), (1, 1));
    let found = check(&begin(&ledger.db, "globex").await).await.expect("a check");
    assert_eq!((found.differences.len(), found.left_over()), (2, vec![]));
    assert!(!found.agrees());
}
