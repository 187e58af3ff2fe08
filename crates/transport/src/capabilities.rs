//! What a bus can do by itself.

/// The differences between buses that the platform has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Settling is part of the handler's transaction, so that no duplicate can come from a crash in between.
    pub settles_in_transaction: bool,
    /// Messages of one key are handed out one after the other, in the order of their commits.
    pub orders_per_key: bool,
    /// A tenant with a long backlog does not hold up the others.
    pub fair_between_tenants: bool,
    /// A message can be published now and handed out later.
    pub delays: bool,
    /// Messages of a higher priority are handed out first.
    pub priorities: bool,
}
