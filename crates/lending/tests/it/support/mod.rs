//! What the tests of lending share.

mod api;
mod cashier;
mod desk;
mod office;

pub use api::Answer;
pub use desk::Desk;
pub use office::Office;
