//! The loan's status is changed where nothing has to be booked.

use crate::{
    LendingError,
    loans::Loan,
    model::LoanStatus::{self, Active, Bankruptcy, ChargedOff, Closed, Created, InModification, PaidOff},
};

pub(super) fn change_status(loan: &mut Loan, to: LoanStatus) -> Result<(), LendingError> {
    let from = loan.status;
    from.become_status(to)?;
    let by = match (from, to) {
        (Created, Active) => Some("the action activate"),
        (ChargedOff, Active) => Some("the action reverse_charge_off"),
        (PaidOff, Active) => Some("taking back the payment that ended it"),
        (_, ChargedOff) => Some("the action charge_off"),
        (_, Closed) => Some("the action close"),
        (_, PaidOff) => Some("paying what is owed"),
        (_, Active | InModification | Bankruptcy | Created) => None,
    };
    match by {
        Some(by) => Err(LendingError::OtherAction { from, to, by }),
        None => {
            loan.status = to;
            Ok(())
        }
    }
}
