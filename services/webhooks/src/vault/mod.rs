//! Encrypts endpoints' secrets at rest: AES-256-GCM with a key of the deployment, bound to the endpoint and the tenant
//! that they belong to.
//!
//! ```text
//! webhooks.secret_key ── HKDF-SHA256 ──┬─▶ the key itself
//!                                      └─▶ its id, which is stored with every secret that it sealed
//! ```
//!
//! A reader of the tables without the key cannot sign anything, and a writer cannot assign one endpoint's secret to
//! another.

mod key;
mod text;

pub use text::{InvalidKey, KeyText, KeyTexts};

use crate::{Settings, WebhookSecret};
use key::Key;
use onceward::TenantId;
use uuid::Uuid;

/// Opens secrets with every configured key, and seals them with the current one.
pub(crate) struct Vault {
    current: Option<Key>,
    previous: Vec<Key>,
}

/// A secret as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct SealedSecret {
    pub key_id: String,
    pub bytes: Vec<u8>,
}

/// The owner of a secret.
#[derive(Clone, Copy)]
pub(crate) struct SecretOwner<'o> {
    pub tenant: &'o TenantId,
    pub endpoint_id: Uuid,
}

/// Why a secret cannot be stored or used. The text also goes into the delivery log, so it names no secret and no key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VaultError {
    #[error("no key for secrets is configured: set webhooks.secret_key or auth.secret, at least 32 bytes long")]
    NoKey,
    #[error("the endpoint has no valid secret: rotate its secret")]
    NoSecret,
    #[error(
        "the endpoint's secret is encrypted with the unknown key {0}: add that key to webhooks.secret_keys_before, \
         or rotate the endpoint's secret"
    )]
    UnknownKey(String),
    #[error("the endpoint's secret was changed in the database, or belongs to another endpoint: rotate its secret")]
    WrongOwner,
}

impl Vault {
    pub(crate) fn new(settings: &Settings) -> Self {
        let current = Some(&settings.secret_key).filter(|key| !key.is_empty()).map(Key::derive);
        Self { current, previous: settings.secret_keys_before.iter().map(Key::derive).collect() }
    }

    /// Returns the ids of the previous keys, without the current one. Secrets sealed with them must be resealed.
    pub(crate) fn outdated_key_ids(&self) -> Vec<&str> {
        let Some(current) = &self.current else {
            return Vec::new();
        };
        self.previous.iter().map(|key| key.id.as_str()).filter(|id| *id != current.id).collect()
    }

    /// Encrypts `secret` for `owner` with the current key. Fails if no key is configured.
    pub(crate) fn seal(&self, owner: SecretOwner<'_>, secret: &WebhookSecret) -> Result<SealedSecret, VaultError> {
        let key = self.current.as_ref().ok_or(VaultError::NoKey)?;
        Ok(SealedSecret { key_id: key.id.clone(), bytes: key.seal(&owner.context(), secret.bytes()) })
    }

    /// Encrypts the same secret with the current key. Fails if it cannot be decrypted.
    pub(crate) fn reseal(&self, owner: SecretOwner<'_>, sealed: &SealedSecret) -> Result<SealedSecret, VaultError> {
        self.seal(owner, &self.open(owner, sealed)?)
    }

    fn open(&self, owner: SecretOwner<'_>, sealed: &SealedSecret) -> Result<WebhookSecret, VaultError> {
        let key = self.current.iter().chain(&self.previous).find(|key| key.id == sealed.key_id);
        let key = key.ok_or_else(|| VaultError::UnknownKey(sealed.key_id.clone()))?;
        let bytes = key.open(&owner.context(), &sealed.bytes).ok_or(VaultError::WrongOwner)?;
        WebhookSecret::from_bytes(bytes).map_err(|_| VaultError::WrongOwner)
    }

    /// Decrypts all valid secrets, newest first. Fails if the newest does not open, because nothing can be signed
    /// without it; skips an earlier one that does not open.
    pub(crate) fn open_all(
        &self,
        owner: SecretOwner<'_>,
        sealed: &[SealedSecret],
    ) -> Result<Vec<WebhookSecret>, VaultError> {
        let (newest, earlier) = sealed.split_first().ok_or(VaultError::NoSecret)?;
        let mut secrets = vec![self.open(owner, newest)?];
        for sealed in earlier {
            match self.open(owner, sealed) {
                Ok(secret) => secrets.push(secret),
                Err(error) => {
                    tracing::warn!(endpoint_id = %owner.endpoint_id, tenant = %owner.tenant, %error, "could not decrypt a previous secret; messages are signed without it");
                }
            }
        }
        Ok(secrets)
    }
}

impl SecretOwner<'_> {
    /// Returns the authenticated context: a secret sealed for this owner opens for no other.
    fn context(&self) -> Vec<u8> {
        [self.endpoint_id.as_bytes().as_slice(), self.tenant.as_str().as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURRENT: &str = "a key of the deployment's, long enough";
    const PREVIOUS: &str = "the-key-that-was-in-force-before-it";

    fn vault(current: &str, previous: &str) -> Vault {
        let secret_keys_before = previous.to_owned().try_into().expect("keys");
        Vault::new(&Settings { secret_keys_before, ..Settings::default().or_derived_from(current) })
    }

    fn check(opened: Result<WebhookSecret, VaultError>, expected: VaultError) {
        assert_eq!(opened, Err(expected));
    }

    #[test]
    fn a_secret_opens_only_for_its_owner_and_is_not_visible_in_its_sealed_form() {
        let (vault, secret) = (vault(CURRENT, ""), WebhookSecret::generate());
        let (acme, globex) = (TenantId::new("acme").unwrap(), TenantId::new("globex").unwrap());
        let owner = SecretOwner { tenant: &acme, endpoint_id: Uuid::from_u128(1) };
        let sealed = vault.seal(owner, &secret).unwrap();
        assert!(!sealed.bytes.windows(8).any(|part| secret.bytes().starts_with(part)));
        assert_ne!(vault.seal(owner, &secret).unwrap().bytes, sealed.bytes, "every sealing uses a new nonce");
        assert_eq!(vault.open(owner, &sealed), Ok(secret));
        check(vault.open(SecretOwner { endpoint_id: Uuid::from_u128(2), ..owner }, &sealed), VaultError::WrongOwner);
        check(vault.open(SecretOwner { tenant: &globex, ..owner }, &sealed), VaultError::WrongOwner);
        for position in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[position] ^= 1;
            check(vault.open(owner, &changed), VaultError::WrongOwner);
        }
        check(vault.open(owner, &SealedSecret { bytes: Vec::new(), ..sealed }), VaultError::WrongOwner);
    }

    #[test]
    fn secrets_of_the_previous_key_still_open_after_the_key_was_replaced() {
        let (old, new, secret) = (vault(PREVIOUS, ""), vault(CURRENT, PREVIOUS), WebhookSecret::generate());
        let tenant = TenantId::new("acme").unwrap();
        let owner = SecretOwner { tenant: &tenant, endpoint_id: Uuid::from_u128(1) };
        let sealed = old.seal(owner, &secret).unwrap();
        assert_eq!(new.open(owner, &sealed), Ok(secret.clone()));
        let resealed = new.seal(owner, &secret).unwrap();
        check(old.open(owner, &resealed), VaultError::UnknownKey(resealed.key_id.clone()));
        check(vault(CURRENT, "").open(owner, &sealed), VaultError::UnknownKey(sealed.key_id.clone()));
        assert_eq!(new.open_all(owner, &[resealed.clone(), sealed.clone()]).map(|all| all.len()), Ok(2));
        assert_eq!(vault(CURRENT, "").open_all(owner, &[resealed, sealed.clone()]).map(|all| all.len()), Ok(1));
        assert!(vault(CURRENT, "").open_all(owner, std::slice::from_ref(&sealed)).is_err());
        assert_eq!(new.open_all(owner, &[]), Err(VaultError::NoSecret));
        assert_eq!((old.outdated_key_ids().len(), new.outdated_key_ids()), (0, vec![sealed.key_id.as_str()]));
        assert_eq!(vault(CURRENT, "").open(owner, &new.reseal(owner, &sealed).unwrap()), Ok(secret.clone()));
        for keyless in [vault("", ""), vault("", PREVIOUS)] {
            assert_eq!(keyless.seal(owner, &secret).err(), Some(VaultError::NoKey), "previous keys only decrypt");
            assert!(keyless.outdated_key_ids().is_empty());
        }
    }
}
