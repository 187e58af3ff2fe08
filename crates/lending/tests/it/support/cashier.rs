//! Payments posted straight to the ledger, as the pipeline would.

use super::Desk;
use jiff::civil::Date;
use onceward::Tx;
use onceward_ledger::{self as ledger, Account, NewEvent, credit, debit};
use onceward_lending::{
    loans::{self, Loan, postings, store},
    model::{Allocation, Bucket, Hints, allocate},
};
use onceward_money::Minor;
use uuid::Uuid;

impl Desk<'_> {
    /// A transaction of this tenant.
    pub async fn begin(&self) -> Tx {
        self.office.platform.db().begin(self.office.platform.scope(&self.tenant)).await.expect("a transaction")
    }

    /// The loan, locked in `tx`.
    pub async fn lock(&self, tx: &Tx, loan_id: Uuid) -> Loan {
        store::lock_loan(tx, loan_id).await.expect("the loan can be read").expect("the loan exists")
    }

    /// Posts a payment of `amount` that counts from `day`, divided by the loan's waterfall.
    pub async fn pay(&self, loan_id: Uuid, day: Date, amount: i64) -> Vec<Allocation> {
        let mut tx = self.begin().await;
        let mut loan = self.lock(&tx, loan_id).await;
        loans::accrue(&mut tx, &mut loan, day).await.expect("interest is booked");
        let outstanding = loans::outstanding(&tx, &loan, day).await.expect("the books are sound");
        let parts = allocate(Minor::new(amount), &loan.policy, &outstanding, Hints::default()).expect("it is divided");
        let mut lines = vec![debit(Account::Cash, Minor::new(amount), "received")];
        lines.extend(parts.iter().map(|part| credit(account(part.bucket), part.amount, part.bucket.as_str())));
        ledger::post(&tx, &event(&loan, day, postings::PAYMENT, lines)).await.expect("it is posted");
        loans::settle_if_paid(&mut tx, &mut loan, day).await.expect("the status can be changed");
        tx.commit().await.expect("the commit works");
        parts
    }

    /// Posts lines as they are.
    pub async fn post_lines(&self, loan_id: Uuid, day: Date, schema: &str, lines: Vec<ledger::Line>) {
        let tx = self.begin().await;
        let loan = self.lock(&tx, loan_id).await;
        ledger::post(&tx, &event(&loan, day, schema, lines)).await.expect("it is posted");
        tx.commit().await.expect("the commit works");
    }
}

fn event(loan: &Loan, day: Date, schema: &str, lines: Vec<ledger::Line>) -> NewEvent {
    let event_id = Uuid::now_v7();
    NewEvent {
        event_id,
        loan_id: loan.loan_id,
        effective_date: day,
        correlation_id: format!("test:{event_id}"),
        schema: schema.to_owned(),
        currency: loan.currency,
        lines,
        note: None,
    }
}

fn account(bucket: Bucket) -> Account {
    match bucket {
        Bucket::FeesDue => Account::FeesReceivable,
        Bucket::InterestPastDue | Bucket::InterestCurrent => Account::InterestReceivable,
        Bucket::Principal => Account::LoanPrincipal,
        Bucket::Escrow => Account::EscrowLiability,
        Bucket::Future => Account::Suspense,
    }
}
