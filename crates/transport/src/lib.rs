//! What a message bus must offer, in few words.
//!
//! A [`Transport`] opens an [`Intake`] on a queue. An intake hands out messages in one of two ways:
//! a [`Turn`] carries the transaction in which its messages are handled and settled together; a
//! [`Leased`] message is handled outside any transaction and settled later by its lease.
//!
//! A [`Broker`] is an external bus: it keeps [`Parcel`]s until a [`Receiver`] has brought them home.
//! [`Capabilities`] say what it does by itself, so that the suite that every broker passes knows
//! which of its tests apply.
//!
//! Nothing above the `transport-*` crates uses a broker's own words.

mod address;
mod broker;
mod delivery;
mod error;
mod intake;
mod namespace;
pub mod wire;

pub use address::{Address, BrokerConfig, BusKind, without_credentials};
pub use broker::{Broker, BrokerError, Capabilities, Difference, Reading, Receiver, Verdict};
pub use delivery::{DeadReason, Delivery, Settlement};
pub use error::TransportError;
pub use intake::{Intake, LeaseId, Leased, Subscription, Transport, Turn};
pub use namespace::{Namespaced, prefixed};
pub use wire::{Arrival, Parcel};
