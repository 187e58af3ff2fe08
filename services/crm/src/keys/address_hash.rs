//! Hashes of addresses, under a key of the tenant.

use hmac::{Hmac, KeyInit, Mac};
use onceward_mail::address::EmailAddress;
use sha2::Sha256;

/// Computes the hash by which an address is known in suppressions, audit entries and logs. Without the tenant's key nobody
/// can find out whose it is by trying addresses.
#[derive(Clone)]
pub(crate) struct AddressHasher(Hmac<Sha256>);

impl AddressHasher {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC accepts keys of any length"))
    }

    /// Returns the hash of an address. It ignores the case of the local part.
    pub(crate) fn hash(&self, address: &EmailAddress) -> Vec<u8> {
        self.hash_text(&address.suppression_key())
    }

    /// Returns the hash of other personal text, such as a name, for audit entries.
    pub(crate) fn hash_text(&self, text: &str) -> Vec<u8> {
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }
}
