//! Who reads which queue: one subscription a file.

mod on_accrual_tick;
mod on_loan_create;
mod on_loan_update;

pub(crate) use on_accrual_tick::OnAccrualTick;
pub(crate) use on_loan_create::OnLoanCreate;
pub(crate) use on_loan_update::OnLoanUpdate;
