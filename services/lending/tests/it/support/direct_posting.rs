//! Posts payments directly to the ledger, as the pipeline would.

use super::ApiClient;
use jiff::civil::Date;
use onceward::Tx;
use onceward_ledger::{self as ledger, Account, NewLedgerEvent, credit, debit};
use onceward_lending::{
    loans::{self, Loan, postings, store},
    model::{Allocation, AllocationHints, PaymentBucket, allocate},
};
use onceward_money::Minor;
use uuid::Uuid;

impl ApiClient<'_> {
    /// Begins a transaction of this tenant.
    pub async fn begin(&self) -> Tx {
        self.fixture.platform.db().begin(self.fixture.platform.scope(&self.tenant)).await.expect("a transaction")
    }

    /// Locks the loan in `tx` and returns it.
    pub async fn lock(&self, tx: &Tx, loan_id: Uuid) -> Loan {
        store::lock_loan(tx, loan_id).await.expect("the loan can be read").expect("the loan exists")
    }

    /// Posts a payment of `amount` effective on `day`, divided by the loan's waterfall.
    pub async fn pay(&self, loan_id: Uuid, day: Date, amount: i64) -> Vec<Allocation> {
        let mut tx = self.begin().await;
        let scope = tx.scope().clone();
        let mut loan = self.lock(&tx, loan_id).await;
        loans::accrue(&mut tx, &scope, &mut loan, day).await.expect("interest is booked");
        let outstanding = loans::outstanding(&tx, &loan, day).await.expect("the books are valid");
        let parts = allocate(Minor::new(amount), &loan.policy, &outstanding, AllocationHints::default())
            .expect("the payment can be divided");
        let mut lines = vec![debit(Account::Cash, Minor::new(amount), "received")];
        lines.extend(parts.iter().map(|part| match part.amount.checked_neg() {
            // Taken from suspense.
            Ok(taken) if taken.is_positive() => debit(account(part.bucket), taken, part.bucket.as_str()),
            _ => credit(account(part.bucket), part.amount, part.bucket.as_str()),
        }));
        ledger::post(&tx, &event(&loan, day, postings::PAYMENT, lines)).await.expect("the posting succeeds");
        loans::settle_if_paid(&mut tx, &scope, &mut loan, day).await.expect("the status can be changed");
        tx.commit().await.expect("the commit succeeds");
        parts
    }

    /// Posts the lines unchanged.
    pub async fn post_lines(&self, loan_id: Uuid, day: Date, schema: &str, lines: Vec<ledger::NewLine>) {
        let tx = self.begin().await;
        let loan = self.lock(&tx, loan_id).await;
        ledger::post(&tx, &event(&loan, day, schema, lines)).await.expect("the posting succeeds");
        tx.commit().await.expect("the commit succeeds");
    }
}

fn event(loan: &Loan, day: Date, schema: &str, lines: Vec<ledger::NewLine>) -> NewLedgerEvent {
    let event_id = Uuid::now_v7();
    NewLedgerEvent {
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

fn account(bucket: PaymentBucket) -> Account {
    match bucket {
        PaymentBucket::FeesDue => Account::FeesReceivable,
        PaymentBucket::InterestPastDue | PaymentBucket::InterestCurrent => Account::InterestReceivable,
        PaymentBucket::Principal => Account::LoanPrincipal,
        PaymentBucket::Escrow => Account::EscrowLiability,
        PaymentBucket::Future => Account::Suspense,
    }
}
