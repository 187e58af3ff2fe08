//! The payment commands, one per file. Each loads, decides, records and publishes.
//!
//! A command that handles many payments at once records and publishes each of them in the scope of the message or
//! request that caused it, which it takes as an argument.

pub(crate) mod allocate_suspense;
pub(crate) mod apply_suspense;
pub(crate) mod fail_payment;
pub(crate) mod post_payment;
pub(crate) mod receive_payment;
pub(crate) mod replay;
pub(crate) mod return_payment;
pub(crate) mod unapplied;
pub(crate) mod validate_payment;
