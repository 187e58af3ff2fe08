//! What an external bus must offer, and the messages that travel over it.
//!
//! A [`Broker`] keeps [`Parcel`]s until a [`Receiver`] has landed them. [`Capabilities`] describe what it does on its
//! own, so that the conformance suite knows which of its tests apply. [`Delivery`] and [`Settlement`] are what handling
//! a message has in common on every bus, PostgreSQL included.
//!
//! No crate above the `broker-*` crates uses a broker's own terms.

mod address;
mod broker;
mod delivery;
mod namespace;
mod position;
pub mod wire;

pub use address::{Address, BrokerConfig, BusKind, without_credentials};
pub use broker::{
    Backlog, Broker, BrokerError, Capabilities, PublishOutcome, ReceiveOptions, Receiver, TopologyDifference,
};
pub use delivery::{DeadReason, Delivery, Settlement};
pub use namespace::{NamespacedBroker, prefixed};
pub use position::{Position, PositionStore};
pub use wire::{Arrival, Parcel};
