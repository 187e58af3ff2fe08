//! Who reads which queue: one subscription a file.

mod on_disburse;

pub(super) use on_disburse::OnDisburse;
