//! The keys of the service: address hashes per tenant, data keys that can be forgotten, and signatures of links.
//!
//! ```text
//! crm.secret_key ─┬─ seals ─▶ crm.tenant_key ─▶ address hashes (HMAC: nobody can enumerate addresses)
//!                 ├─ seals ─▶ crm.data_key ───▶ artifacts of one contact; forgetting the key erases them
//!                 ├─ seals ─▶ crm.dkim_key
//!                 └─ signs ─▶ unsubscribe links and return paths
//! ```

mod address_hash;
mod data_key;
mod link_token;

pub(crate) use address_hash::AddressHasher;
pub(crate) use data_key::DataKey;
pub(crate) use link_token::MailReference;

use crate::{CrmError, Settings, store};
use onceward::{
    TenantId, Tx,
    secrets::{KeyText, SealedBytes, SealingKeys},
};
use onceward_mail::return_path::{ReturnPathKey, ReturnPathKeys};
use quick_cache::sync::Cache;
use uuid::Uuid;

const SEALING_PURPOSE: &str = "onceward crm";
const LINK_PURPOSE: &str = "onceward crm links";
const RETURN_PATH_PURPOSE: &str = "onceward crm return paths";
const CACHED_TENANTS: usize = 10_000;
const KEY_BYTES: usize = 32;

/// Every key of the service, derived from the settings or stored sealed in the database.
pub(crate) struct CrmKeys {
    sealing: SealingKeys,
    link_secrets: Vec<[u8; KEY_BYTES]>,
    return_paths: ReturnPathKeys,
    hashers: Cache<TenantId, AddressHasher>,
}

impl CrmKeys {
    pub(crate) fn new(settings: &Settings) -> Self {
        let texts = || std::iter::once(&settings.secret_key).chain(settings.secret_keys_before.iter());
        let derive = |purpose: &'static str| move |text: &KeyText| text.derive(purpose);
        let mut return_paths = texts().map(derive(RETURN_PATH_PURPOSE)).map(ReturnPathKey::new);
        let current = return_paths.next().unwrap_or_else(|| ReturnPathKey::new([0; KEY_BYTES]));
        Self {
            sealing: SealingKeys::derive(SEALING_PURPOSE, &settings.secret_key, &settings.secret_keys_before),
            link_secrets: texts().map(derive(LINK_PURPOSE)).collect(),
            return_paths: ReturnPathKeys { current, previous: return_paths.collect() },
            hashers: Cache::new(CACHED_TENANTS),
        }
    }

    /// Returns the keys of return paths.
    pub(crate) fn return_paths(&self) -> &ReturnPathKeys {
        &self.return_paths
    }

    /// Signs a link of one recipient of a mail.
    pub(crate) fn link_token(&self, reference: MailReference) -> String {
        reference.token(&self.link_secrets[0])
    }

    /// Returns the recipient of a link, or `None` if we did not sign it.
    pub(crate) fn read_link_token(&self, token: &str) -> Option<MailReference> {
        MailReference::from_token(token, &self.link_secrets)
    }

    /// Returns the hasher of the transaction's tenant. Its key is created on first use.
    pub(crate) async fn address_hasher(&self, tx: &Tx) -> Result<AddressHasher, CrmError> {
        let tenant = tx.tenant()?;
        if let Some(hasher) = self.hashers.get(tenant) {
            return Ok(hasher);
        }
        let context = tenant.as_str().as_bytes();
        if let Some(sealed) = store::keys::tenant_key(tx).await? {
            let hasher = AddressHasher::new(&self.open_key(context, &sealed)?);
            self.hashers.insert(tenant.clone(), hasher.clone());
            return Ok(hasher);
        }
        // The new key is cached only once it is committed, which the next caller sees.
        let sealed = self.sealing.seal(context, &rand::random::<[u8; KEY_BYTES]>())?;
        store::keys::insert_tenant_key(tx, &sealed).await?;
        let stored = store::keys::tenant_key(tx).await?.unwrap_or(sealed);
        Ok(AddressHasher::new(&self.open_key(context, &stored)?))
    }

    /// Returns the data key with this id, which is created on first use, or `None` if it was forgotten.
    pub(crate) async fn data_key(&self, tx: &Tx, key_id: Uuid) -> Result<Option<DataKey>, CrmError> {
        let context = data_key_context(tx.tenant()?, key_id);
        match store::keys::data_key(tx, key_id).await? {
            Some(Some(sealed)) => return Ok(Some(DataKey::new(&self.open_key(&context, &sealed)?))),
            Some(None) => return Ok(None),
            None => {}
        }
        let key = rand::random::<[u8; KEY_BYTES]>();
        if store::keys::insert_data_key(tx, key_id, &self.sealing.seal(&context, &key)?).await? {
            return Ok(Some(DataKey::new(&key)));
        }
        self.existing_data_key(tx, key_id).await
    }

    /// Returns the data key with this id, or `None` if there is none or it was forgotten.
    pub(crate) async fn existing_data_key(&self, tx: &Tx, key_id: Uuid) -> Result<Option<DataKey>, CrmError> {
        let context = data_key_context(tx.tenant()?, key_id);
        match store::keys::data_key(tx, key_id).await? {
            Some(Some(sealed)) => Ok(Some(DataKey::new(&self.open_key(&context, &sealed)?))),
            _ => Ok(None),
        }
    }

    /// Encrypts a secret of the transaction's tenant, such as a DKIM key.
    pub(crate) fn seal(&self, context: &[u8], plain: &[u8]) -> Result<SealedBytes, CrmError> {
        Ok(self.sealing.seal(context, plain)?)
    }

    /// Decrypts a secret that was sealed in this `context`.
    pub(crate) fn open(&self, context: &[u8], sealed: &SealedBytes) -> Result<Vec<u8>, CrmError> {
        Ok(self.sealing.open(context, sealed)?)
    }

    fn open_key(&self, context: &[u8], sealed: &SealedBytes) -> Result<[u8; KEY_BYTES], CrmError> {
        let plain = self.sealing.open(context, sealed)?;
        plain.try_into().map_err(|_| CrmError::DamagedKey)
    }
}

fn data_key_context(tenant: &TenantId, key_id: Uuid) -> Vec<u8> {
    [key_id.as_bytes().as_slice(), tenant.as_str().as_bytes()].concat()
}
