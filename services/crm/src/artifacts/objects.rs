//! The store of objects: a folder, or a bucket.

use crate::{CrmError, keys::DataKey};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, aws::AmazonS3Builder, local::LocalFileSystem, path::Path};
use onceward::TenantId;
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// How long one operation may take.
const TIMEOUT: Duration = Duration::from_secs(20);
const S3_SCHEME: &str = "s3://";

/// The place of one object, by the hash of its plain content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectName {
    pub key: String,
    pub sha256: String,
}

impl ObjectName {
    /// Names an object of a mail: `message`, `html`, `manifest` or `attachment`.
    pub(crate) fn of(tenant: &TenantId, email_id: Uuid, kind: &str, content: &[u8]) -> Self {
        Self::with_hash(tenant, email_id, kind, hex::encode(Sha256::digest(content)))
    }

    /// Names an object whose hash is known. Its folder is one of 256, by the hash: a folder per mail would cost more than the
    /// mail itself.
    pub(crate) fn with_hash(tenant: &TenantId, email_id: Uuid, kind: &str, sha256: String) -> Self {
        let folder = sha256.get(..2).unwrap_or("00");
        Self { key: format!("crm/{tenant}/{folder}/{email_id}-{kind}-{sha256}"), sha256 }
    }
}

/// Stores and reads encrypted objects.
#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
}

impl Objects {
    /// Opens the store that `location` names: a folder, which is created, or `s3://<bucket>/<prefix>`.
    pub(crate) fn open(location: &str) -> Result<Self, CrmError> {
        if let Some(rest) = location.strip_prefix(S3_SCHEME) {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let bucket = AmazonS3Builder::from_env().with_bucket_name(bucket).build()?;
            let store = object_store::prefix::PrefixStore::new(bucket, prefix);
            return Ok(Self { store: Arc::new(store) });
        }
        let created = std::fs::create_dir_all(location);
        created.map_err(|error| CrmError::Other(format!("crm.objects cannot be created: {error}")))?;
        Ok(Self { store: Arc::new(LocalFileSystem::new_with_prefix(location)?.with_automatic_cleanup(true)) })
    }

    /// Encrypts and stores an object. Storing the same content again changes nothing.
    pub(crate) async fn put(&self, name: &ObjectName, key: &DataKey, content: &[u8]) -> Result<(), CrmError> {
        let payload = PutPayload::from(key.seal(&name.key, content));
        let path = Path::from(name.key.as_str());
        within_time(self.store.put(&path, payload)).await.map(drop)
    }

    /// Returns the content of an object. Fails if it is missing, was changed, or has another hash than its name says.
    pub(crate) async fn get(&self, name: &ObjectName, key: &DataKey) -> Result<Vec<u8>, CrmError> {
        let path = Path::from(name.key.as_str());
        let sealed = within_time(async { self.store.get(&path).await?.bytes().await }).await?;
        let damaged = || CrmError::Other(format!("the object {} was changed", name.key));
        let content = key.open(&name.key, &sealed).ok_or_else(damaged)?;
        if hex::encode(Sha256::digest(&content)) == name.sha256 { Ok(content) } else { Err(damaged()) }
    }

    /// Deletes an object, if it exists.
    pub(crate) async fn delete(&self, object_key: &str) -> Result<(), CrmError> {
        let path = Path::from(object_key);
        match within_time(self.store.delete(&path)).await {
            Err(CrmError::Objects(object_store::Error::NotFound { .. })) => Ok(()),
            other => other,
        }
    }
}

async fn within_time<T>(work: impl Future<Output = object_store::Result<T>>) -> Result<T, CrmError> {
    let timed_out = |_| CrmError::Other(format!("the object store did not answer within {} s", TIMEOUT.as_secs()));
    Ok(tokio::time::timeout(TIMEOUT, work).await.map_err(timed_out)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_object_is_stored_encrypted_and_a_changed_one_is_not_returned() {
        let folder = std::env::temp_dir().join(format!("onceward-objects-{}", Uuid::now_v7()));
        let objects = Objects::open(folder.to_str().expect("a UTF-8 path")).expect("a folder");
        let tenant = TenantId::new("acme").expect("a tenant");
        let (key, content) = (DataKey::new(&[3; 32]), b"Dear Ada".as_slice());
        let name = ObjectName::of(&tenant, Uuid::now_v7(), "message", content);
        objects.put(&name, &key, content).await.expect("it is stored");
        objects.put(&name, &key, content).await.expect("it is stored again");
        assert_eq!(objects.get(&name, &key).await.expect("it is found"), content);
        let file = folder.join(&name.key);
        let mut stored = std::fs::read(&file).expect("a file");
        assert!(!stored.windows(3).any(|part| part == b"Ada"));
        stored[20] ^= 1;
        std::fs::write(&file, stored).expect("it can be changed");
        assert!(objects.get(&name, &key).await.is_err());
        objects.delete(&name.key).await.expect("it is deleted");
        objects.delete(&name.key).await.expect("deleting it again is not an error");
        std::fs::remove_dir_all(folder).expect("the folder can be removed");
    }
}
