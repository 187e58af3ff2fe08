//! DKIM signatures (RFC 6376, RFC 8463): `relaxed/relaxed`, over the final bytes of a message.
//!
//! From, Subject, Date and To are signed once more than they occur, so that nobody can add a second one that a reader
//! is shown instead. The body is signed as a whole: there is no `l=`. A message may have a signature for each of several
//! keys; receivers that do not know Ed25519 verify the one by RSA.
//!
//! Reading order: `sign`, `canonical` (what is hashed), `key` ([`DkimKey`] and its DNS record).

mod canonical;
mod error;
mod key;
mod sign;

pub use error::DkimError;
pub use key::DkimKey;
pub use sign::sign;
