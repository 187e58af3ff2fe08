//! What the tests of the example share.

pub mod api;
pub mod broker;
pub mod bus;
pub mod check;
pub mod fleet;
pub mod lap;
pub mod load;
pub mod other_team;
pub mod shop;

/// A number that the environment may give.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")))
}
