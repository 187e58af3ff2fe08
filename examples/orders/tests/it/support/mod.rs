//! What the tests of the example share.

pub mod api;
pub mod bus;
pub mod check;
pub mod fleet;
pub mod lap;
pub mod load;
pub mod other_team;
pub mod shop;
