//! Commands on senders and their keys. Each writes one audit entry, with hashes of addresses and without keys.

mod activate_key;
mod add_key;
mod put_sender;
mod remove_key;

pub(super) use activate_key::activate_key;
pub(super) use add_key::add_key;
pub(super) use put_sender::{SenderChange, put_sender};
pub(super) use remove_key::remove_key;
