//! What is done with payments, one verb a file.

pub(crate) mod allocate;
pub(crate) mod place;
pub(crate) mod post;
pub(crate) mod replay;
pub(crate) mod return_payment;
pub(crate) mod take_in;
pub(crate) mod validate;
