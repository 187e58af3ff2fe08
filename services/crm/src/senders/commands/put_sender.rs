//! Declares who mail of a domain comes from.

use super::super::store::{self, SenderRow, SenderValues};
use crate::{
    CrmError,
    changes::{self, Change},
    keys::{AddressHasher, CrmKeys},
};
use onceward::Tx;
use onceward_mail::address::{EmailAddress, Mailbox};
use serde_json::{Value, json};

/// The sender as the tenant wants it.
pub(in crate::senders) struct SenderChange {
    pub from_address: String,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
    /// Whether mail comes from it unless another sender is named. The first sender is the default.
    pub is_default: Option<bool>,
}

/// Creates or changes a sender. Without a difference it has no effect.
pub(in crate::senders) async fn put_sender(
    tx: &mut Tx,
    keys: &CrmKeys,
    domain: &str,
    change: SenderChange,
) -> Result<SenderRow, CrmError> {
    let count = store::lock_senders(tx).await?;
    let before = store::find_sender(tx, domain).await?;
    if before.is_none() && count >= store::MAX_SENDERS {
        let what = format!("A tenant may have {} senders at the most: change an existing one.", store::MAX_SENDERS);
        return Err(CrmError::invalid("", what));
    }
    let is_default = change.is_default.unwrap_or_else(|| before.as_ref().map_or(count == 0, |row| row.is_default));
    let after = check(domain, change, is_default)?;
    let old = before.map(values);
    if old.as_ref() != Some(&after) {
        store::put_sender(tx, domain, &after).await?;
        let hasher = keys.address_hasher(tx).await?;
        let mut change = Change::new("CRM.SENDER.SET", "sender", domain).new_value(audit_view(&hasher, &after));
        if let Some(old) = &old {
            change = change.old(audit_view(&hasher, old));
        }
        changes::record(tx, change).await?;
    }
    store::find_sender(tx, domain).await?.ok_or(CrmError::NotFound("sender"))
}

fn check(domain: &str, change: SenderChange, is_default: bool) -> Result<SenderValues, CrmError> {
    let address = |path: &str, text: &str| EmailAddress::parse(text).map_err(|error| CrmError::invalid(path, error));
    let from = address("/from_address", &change.from_address)?;
    if from.domain() != domain {
        let what = format!("The address must belong to {domain}, in lower case and as A-labels: DKIM signs for it.");
        return Err(CrmError::invalid("/from_address", what));
    }
    let reply_to = change.reply_to.as_deref().map(|text| address("/reply_to", text)).transpose()?;
    let from_address = from.as_str().to_owned();
    let mailbox = Mailbox::new(change.from_name.as_deref(), from);
    let mailbox = mailbox.map_err(|error| CrmError::invalid("/from_name", error))?;
    Ok(SenderValues {
        from_address,
        from_name: mailbox.name().map(str::to_owned),
        reply_to: reply_to.map(|address| address.as_str().to_owned()),
        is_default,
    })
}

fn values(row: SenderRow) -> SenderValues {
    let SenderRow { from_address, from_name, reply_to, is_default, .. } = row;
    SenderValues { from_address, from_name, reply_to, is_default }
}

fn audit_view(hasher: &AddressHasher, values: &SenderValues) -> Value {
    let text_hash = |text: &String| hex::encode(hasher.hash_text(text));
    json!({
        "from_address": text_hash(&values.from_address),
        "from_name": values.from_name.as_ref().map(text_hash),
        "reply_to": values.reply_to.as_ref().map(text_hash),
        "is_default": values.is_default,
    })
}
