//! `loan.create.v1`: makes the loan that a request was accepted for.

use crate::loans::{
    commands::{create_loan, note_outcome},
    events::LoanCreate,
};
use onceward::{Event, Failure, Handler, Received, Tx};

pub(crate) struct OnLoanCreate;

impl Handler for OnLoanCreate {
    type Event = LoanCreate;

    async fn handle(&self, tx: &mut Tx, received: &Received<'_, LoanCreate>) -> Result<(), Failure> {
        let LoanCreate { loan_id, loan_data } = &received.event;
        let before = tx.savepoint();
        let result = create_loan(tx, *loan_id, loan_data).await;
        note_outcome(tx, before, LoanCreate::TYPE, *loan_id, result).await
    }
}
