//! What a message bus must offer, in few words.
//!
//! A [`Transport`] opens an [`Intake`] on a queue. An intake hands out messages in one of two ways:
//! a [`Turn`] carries the transaction in which its messages are handled and settled together; a
//! [`Leased`] message is handled outside any transaction and settled later by its lease.
//! [`Capabilities`] say what a bus does by itself, so that the suite that every transport passes
//! knows which of its tests apply.
//!
//! Nothing above the `transport-*` crates uses a broker's own words.

mod capabilities;
mod delivery;
mod error;
mod intake;

pub use capabilities::Capabilities;
pub use delivery::{DeadReason, Delivery, Settlement};
pub use error::TransportError;
pub use intake::{Intake, LeaseId, Leased, Subscription, Transport, Turn};
