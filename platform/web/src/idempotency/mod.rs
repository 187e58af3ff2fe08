//! The `Idempotency-Key` header: a repeated command takes effect once.
//!
//! ```text
//!            ┌─ lock taken, no row ──► free ──► the command runs ──► row + effects, one commit
//! claim ─────┼─ lock taken, a row ──► same body: the stored response again; other body: 422
//!            └─ lock held elsewhere ► 409, try again
//! ```
//!
//! The lock is an advisory one that ends with the transaction, so a crash releases it. A row exists only if the
//! command's effects do. A key is scoped to tenant, caller, method and path: no caller can see another's stored
//! response.

mod store;

pub use store::forget_expired;
pub(crate) use store::{KeyClaim, StoredResponse, claim, save};

use crate::{Caller, Idempotency, Problem, problem::codes};
use axum::http::{HeaderMap, HeaderName, Method};
use onceward_envelope::{IdempotencyKey, fingerprint};

/// The request header that carries the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The response header that marks a stored response.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A key as the database stores it.
#[derive(Clone, Debug)]
pub(crate) struct ScopedKey {
    /// SHA-256 of everything the key is scoped to.
    pub(crate) scope_digest: [u8; 32],
    /// SHA-256 of the request's body.
    pub(crate) request_fingerprint: [u8; 32],
}

impl ScopedKey {
    pub(crate) fn new(caller: &Caller, method: &Method, path: &str, key: &IdempotencyKey, body: &[u8]) -> Self {
        let parts = [caller.tenant.as_str(), caller.user_id.as_str(), method.as_str(), path, key.as_str()];
        // Each part is preceded by its length, so that different scopes never have the same encoding.
        let mut scope = Vec::with_capacity(256);
        for part in parts {
            scope.extend_from_slice(&(part.len() as u64).to_be_bytes());
            scope.extend_from_slice(part.as_bytes());
        }
        Self { scope_digest: fingerprint(scope), request_fingerprint: fingerprint(body) }
    }

    /// Returns the advisory lock's number. Two keys that share one only wait for each other.
    pub(crate) fn lock(&self) -> i64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.scope_digest[..8]);
        i64::from_be_bytes(first)
    }
}

/// Returns the key that a request carries, as far as its route uses it. Fails if a required key is missing or
/// malformed.
pub(crate) fn key_of(headers: &HeaderMap, idempotency: Idempotency) -> Result<Option<IdempotencyKey>, Problem> {
    if idempotency == Idempotency::Off {
        return Ok(None);
    }
    let mut values = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return match idempotency {
            Idempotency::Required => Err(Problem::new(codes::KEY_MISSING)
                .detail("Send the header Idempotency-Key with a new value for this command, and the same value when you repeat it.")),
            _ => Ok(None),
        };
    };
    let invalid =
        || Problem::new(codes::KEY_INVALID).detail("Send one Idempotency-Key of 1 to 255 printable characters.");
    if values.next().is_some() {
        return Err(invalid());
    }
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid())?;
    IdempotencyKey::new(text).map(Some).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use onceward_envelope::{CorrelationId, TenantId, TraceContext};

    fn caller(tenant: &str, user: &str) -> Caller {
        Caller {
            tenant: TenantId::new(tenant).unwrap(),
            user_id: user.to_owned(),
            roles: Vec::new(),
            correlation_id: CorrelationId::generate(),
            trace: TraceContext::new_root(),
        }
    }

    #[test]
    fn a_difference_in_any_part_of_the_scope_is_another_key() {
        let key = |text: &str| IdempotencyKey::new(text).unwrap();
        let digest = |tenant, user, method, path, text| {
            ScopedKey::new(&caller(tenant, user), &method, path, &key(text), b"{}").scope_digest
        };
        let base = digest("acme", "ann", Method::POST, "/a", "k");
        assert_eq!(base, digest("acme", "ann", Method::POST, "/a", "k"));
        for other in [
            digest("acme2", "ann", Method::POST, "/a", "k"),
            digest("acme", "bob", Method::POST, "/a", "k"),
            digest("acme", "ann", Method::PUT, "/a", "k"),
            digest("acme", "ann", Method::POST, "/b", "k"),
            digest("acme", "ann", Method::POST, "/a", "k2"),
            digest("acmea", "nn", Method::POST, "/a", "k"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_key_is_required_optional_or_ignored_as_the_route_declares() {
        let mut headers = HeaderMap::new();
        assert!(key_of(&headers, Idempotency::Required).is_err());
        assert_eq!(key_of(&headers, Idempotency::Optional).unwrap(), None);
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("abc"));
        assert_eq!(key_of(&headers, Idempotency::Off).unwrap(), None);
        assert!(key_of(&headers, Idempotency::Required).unwrap().is_some());
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("def"));
        assert!(key_of(&headers, Idempotency::Optional).is_err());
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_str(&"x".repeat(256)).unwrap());
        assert!(key_of(&headers, Idempotency::Optional).is_err());
    }
}
