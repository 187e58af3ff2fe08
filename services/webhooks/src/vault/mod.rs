//! Encrypts endpoints' secrets at rest: AES-256-GCM with a key of the deployment, bound to the endpoint and the tenant
//! that they belong to.
//!
//! A reader of the tables without the key cannot sign anything, and a writer cannot assign one endpoint's secret to
//! another.

use crate::{Settings, WebhookSecret};
use onceward::{
    TenantId,
    secrets::{SealError, SealedBytes, SealingKeys},
};
use uuid::Uuid;

const PURPOSE: &str = "onceward webhooks";

/// Opens secrets with every configured key, and seals them with the current one.
pub(crate) struct Vault(SealingKeys);

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

impl From<SealError> for VaultError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::NoKey => Self::NoKey,
            SealError::UnknownKey(id) => Self::UnknownKey(id),
            SealError::WrongContext => Self::WrongOwner,
        }
    }
}

impl Vault {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self(SealingKeys::derive(PURPOSE, &settings.secret_key, &settings.secret_keys_before))
    }

    /// Returns the ids of the previous keys, without the current one. Secrets sealed with them must be resealed.
    pub(crate) fn outdated_key_ids(&self) -> Vec<&str> {
        self.0.outdated_ids()
    }

    /// Encrypts `secret` for `owner` with the current key. Fails if no key is configured.
    pub(crate) fn seal(&self, owner: SecretOwner<'_>, secret: &WebhookSecret) -> Result<SealedBytes, VaultError> {
        Ok(self.0.seal(&owner.context(), secret.bytes())?)
    }

    /// Encrypts the same secret with the current key. Fails if it cannot be decrypted.
    pub(crate) fn reseal(&self, owner: SecretOwner<'_>, sealed: &SealedBytes) -> Result<SealedBytes, VaultError> {
        self.seal(owner, &self.open(owner, sealed)?)
    }

    fn open(&self, owner: SecretOwner<'_>, sealed: &SealedBytes) -> Result<WebhookSecret, VaultError> {
        let bytes = self.0.open(&owner.context(), sealed)?;
        WebhookSecret::from_bytes(bytes).map_err(|_| VaultError::WrongOwner)
    }

    /// Decrypts all valid secrets, newest first. Fails if the newest does not open, because nothing can be signed
    /// without it; skips an earlier one that does not open.
    pub(crate) fn open_all(
        &self,
        owner: SecretOwner<'_>,
        sealed: &[SealedBytes],
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
        check(vault.open(owner, &SealedBytes { bytes: Vec::new(), ..sealed }), VaultError::WrongOwner);
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
