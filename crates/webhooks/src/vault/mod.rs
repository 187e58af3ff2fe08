//! Endpoints' secrets at rest: AES-256-GCM under a key of the deployment's, bound to the endpoint and the tenant that they are for.
//!
//! ```text
//! webhooks.secret_key ── HKDF-SHA256 ──┬─▶ the key itself
//!                                      └─▶ its id, which stands beside what was sealed with it
//! ```
//!
//! Who reads the tables without the key can sign nothing, and who writes to them cannot give one endpoint the secret of another.

mod key;
mod text;

pub use text::{KeyText, KeyTexts, NotAKey};

use crate::{Secret, Settings};
use key::Key;
use onceward::TenantId;
use uuid::Uuid;

/// Opens with every key that is set, and seals with the one in force.
pub(crate) struct Vault {
    current: Option<Key>,
    before: Vec<Key>,
}

/// A secret as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub key_id: String,
    pub bytes: Vec<u8>,
}

/// Whose a secret is.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'o> {
    pub tenant: &'o TenantId,
    pub endpoint_id: Uuid,
}

/// Why a secret cannot be kept or used. For the delivery log, too, so it names no secret and no key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VaultError {
    #[error("there is no key for secrets: set webhooks.secret_key or auth.secret, at least 32 bytes long")]
    NoKey,
    #[error("the endpoint has no secret in force: rotate its secret")]
    NoSecret,
    #[error(
        "the endpoint's secret is sealed with the key {0}, which is not known: name it in webhooks.secret_keys_before, \
         or rotate the endpoint's secret"
    )]
    UnknownKey(String),
    #[error("the endpoint's secret was changed in the table, or is that of another endpoint: rotate its secret")]
    NotItsOwn,
}

impl Vault {
    pub(crate) fn new(settings: &Settings) -> Self {
        let current = Some(&settings.secret_key).filter(|key| !key.is_empty()).map(Key::derive);
        Self { current, before: settings.secret_keys_before.iter().map(Key::derive).collect() }
    }

    /// The ids of keys that were in force before and are not now: what is sealed with them is to be sealed anew.
    pub(crate) fn outdated(&self) -> Vec<&str> {
        let Some(current) = &self.current else {
            return Vec::new();
        };
        self.before.iter().map(|key| key.id.as_str()).filter(|id| *id != current.id).collect()
    }

    pub(crate) fn seal(&self, owner: Owner<'_>, secret: &Secret) -> Result<Sealed, VaultError> {
        let key = self.current.as_ref().ok_or(VaultError::NoKey)?;
        Ok(Sealed { key_id: key.id.clone(), bytes: key.seal(&owner.context(), secret.bytes()) })
    }

    /// The same secret under the key in force.
    pub(crate) fn reseal(&self, owner: Owner<'_>, sealed: &Sealed) -> Result<Sealed, VaultError> {
        self.seal(owner, &self.open(owner, sealed)?)
    }

    fn open(&self, owner: Owner<'_>, sealed: &Sealed) -> Result<Secret, VaultError> {
        let key = self.current.iter().chain(&self.before).find(|key| key.id == sealed.key_id);
        let key = key.ok_or_else(|| VaultError::UnknownKey(sealed.key_id.clone()))?;
        let bytes = key.open(&owner.context(), &sealed.bytes).ok_or(VaultError::NotItsOwn)?;
        Secret::from_bytes(bytes).map_err(|_| VaultError::NotItsOwn)
    }

    /// All that are in force, the newest first. Without the newest nothing can be signed; one before it that does not open is left out.
    pub(crate) fn open_all(&self, owner: Owner<'_>, sealed: &[Sealed]) -> Result<Vec<Secret>, VaultError> {
        let (newest, before) = sealed.split_first().ok_or(VaultError::NoSecret)?;
        let mut secrets = vec![self.open(owner, newest)?];
        for one in before {
            match self.open(owner, one) {
                Ok(secret) => secrets.push(secret),
                Err(error) => {
                    tracing::warn!(endpoint_id = %owner.endpoint_id, tenant = %owner.tenant, %error, "an older secret is left out");
                }
            }
        }
        Ok(secrets)
    }
}

impl Owner<'_> {
    /// What is sealed here opens nowhere else.
    fn context(&self) -> Vec<u8> {
        [self.endpoint_id.as_bytes().as_slice(), self.tenant.as_str().as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "a key of the deployment's, long enough";
    const BEFORE: &str = "the-key-that-was-in-force-before-it";

    fn vault(current: &str, before: &str) -> Vault {
        let secret_keys_before = before.to_owned().try_into().expect("keys");
        Vault::new(&Settings { secret_keys_before, ..Settings::default().or_derived_from(current) })
    }

    fn check(opened: Result<Secret, VaultError>, expected: VaultError) {
        assert_eq!(opened, Err(expected));
    }

    #[test]
    fn a_secret_opens_for_its_owner_only_and_is_not_seen_in_what_is_kept() {
        let (vault, secret) = (vault(OURS, ""), Secret::generate());
        let (acme, globex) = (TenantId::new("acme").unwrap(), TenantId::new("globex").unwrap());
        let owner = Owner { tenant: &acme, endpoint_id: Uuid::from_u128(1) };
        let sealed = vault.seal(owner, &secret).unwrap();
        assert!(!sealed.bytes.windows(8).any(|part| secret.bytes().starts_with(part)));
        assert_ne!(vault.seal(owner, &secret).unwrap().bytes, sealed.bytes, "each is sealed anew");
        assert_eq!(vault.open(owner, &sealed), Ok(secret));
        check(vault.open(Owner { endpoint_id: Uuid::from_u128(2), ..owner }, &sealed), VaultError::NotItsOwn);
        check(vault.open(Owner { tenant: &globex, ..owner }, &sealed), VaultError::NotItsOwn);
        for position in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[position] ^= 1;
            check(vault.open(owner, &changed), VaultError::NotItsOwn);
        }
        check(vault.open(owner, &Sealed { bytes: Vec::new(), ..sealed }), VaultError::NotItsOwn);
    }

    #[test]
    fn a_key_is_replaced_while_the_one_before_still_opens() {
        let (old, new, secret) = (vault(BEFORE, ""), vault(OURS, BEFORE), Secret::generate());
        let tenant = TenantId::new("acme").unwrap();
        let owner = Owner { tenant: &tenant, endpoint_id: Uuid::from_u128(1) };
        let sealed = old.seal(owner, &secret).unwrap();
        assert_eq!(new.open(owner, &sealed), Ok(secret.clone()));
        let anew = new.seal(owner, &secret).unwrap();
        check(old.open(owner, &anew), VaultError::UnknownKey(anew.key_id.clone()));
        check(vault(OURS, "").open(owner, &sealed), VaultError::UnknownKey(sealed.key_id.clone()));
        assert_eq!(new.open_all(owner, &[anew.clone(), sealed.clone()]).map(|all| all.len()), Ok(2));
        assert_eq!(vault(OURS, "").open_all(owner, &[anew, sealed.clone()]).map(|all| all.len()), Ok(1));
        assert!(vault(OURS, "").open_all(owner, std::slice::from_ref(&sealed)).is_err());
        assert_eq!(new.open_all(owner, &[]), Err(VaultError::NoSecret));
        assert_eq!((old.outdated().len(), new.outdated()), (0, vec![sealed.key_id.as_str()]));
        assert_eq!(vault(OURS, "").open(owner, &new.reseal(owner, &sealed).unwrap()), Ok(secret.clone()));
        for keyless in [vault("", ""), vault("", BEFORE)] {
            assert_eq!(keyless.seal(owner, &secret).err(), Some(VaultError::NoKey), "old keys only open");
            assert!(keyless.outdated().is_empty());
        }
    }
}
