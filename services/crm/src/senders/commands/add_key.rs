//! Adds a DKIM key to a domain. It does not sign until it is activated, so that its record can be published before.

use super::super::{SEED_BYTES, read_key, sealing_context, store};
use crate::{
    CrmError,
    changes::{self, Change},
    keys::CrmKeys,
};
use onceward::Tx;
use onceward_mail::dkim::DkimKey;
use serde_json::json;

/// Adds a key: the given one, or a new Ed25519 key. The private key is stored sealed and never returned.
pub(in crate::senders) async fn add_key(
    tx: &mut Tx,
    keys: &CrmKeys,
    (domain, selector): (&str, &str),
    pem: Option<&str>,
) -> Result<DkimKey, CrmError> {
    if !store::lock_keys(tx, domain).await? {
        return Err(CrmError::NotFound("sender"));
    }
    let existing = store::list_keys(tx, domain).await?;
    if existing.iter().any(|key| key.selector == selector) {
        let what = format!("The selector {selector} exists: choose another one, because receivers remember records.");
        return Err(CrmError::AlreadyExists(what));
    }
    if existing.len() >= store::MAX_KEYS {
        let what = format!("A domain may have {} keys at the most: delete an old one.", store::MAX_KEYS);
        return Err(CrmError::invalid("/selector", what));
    }
    let plain = pem.map_or_else(|| rand::random::<[u8; SEED_BYTES]>().to_vec(), |pem| pem.as_bytes().to_vec());
    let key = read_key(domain, selector, &plain).map_err(|error| CrmError::invalid("/private_key_pem", error))?;
    let record = key.public_record();
    let algorithm = algorithm_of(&record);
    let sealed = keys.seal(&sealing_context(tx.tenant()?, domain, selector), &plain)?;
    let new = store::NewDkimKey { domain, selector, algorithm, sealed: &sealed, record: &record };
    store::insert_key(tx, &new).await?;
    let change = Change::new("CRM.DKIM.ADDED", "sender", domain)
        .new_value(json!({ "selector": selector, "algorithm": algorithm, "record": record }));
    changes::record(tx, change).await?;
    Ok(key)
}

/// Returns the algorithm of the key with this record.
fn algorithm_of(record: &str) -> &'static str {
    if record.contains("k=ed25519") { "ed25519-sha256" } else { "rsa-sha256" }
}
