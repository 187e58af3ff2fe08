//! Who a tenant's mail comes from: senders by domain, and the DKIM keys of each domain.
//!
//! A domain signs with at most one key per algorithm. To rotate a key, add one with a new selector, publish its record in
//! DNS, activate it, which deactivates the previous one, and delete that one once no mail signed with it is under way.
//! The sending path calls [`sender_for`].

mod commands;
mod routes;
mod schemas;
mod store;

pub(crate) use routes::routes;
pub(crate) use schemas::SCHEMAS;

use crate::{CrmError, Settings, keys::CrmKeys};
use onceward::{TenantId, Tx, secrets::SealedBytes};
use onceward_mail::{
    address::{EmailAddress, Mailbox},
    dkim::{DkimError, DkimKey},
};

/// An Ed25519 key is stored as its seed, other keys as PEM.
const SEED_BYTES: usize = 32;

/// Who a mail comes from, and the keys that sign it.
#[derive(Debug)]
pub(crate) struct MailSender {
    pub from: Mailbox,
    pub reply_to: Option<Mailbox>,
    pub domain: String,
    /// The active keys of the domain, at most one per algorithm.
    pub dkim_keys: Vec<DkimKey>,
}

/// Returns the default sender of the transaction's tenant, or else that of the settings, or `None` if there is neither.
pub(crate) async fn sender_for(tx: &Tx, keys: &CrmKeys, settings: &Settings) -> Result<Option<MailSender>, CrmError> {
    let Some(row) = store::default_sender(tx).await? else { return sender_of_settings(settings) };
    let damaged = || CrmError::Other(format!("the sender of {} is damaged: save it again", row.domain));
    let address = |text: &str| EmailAddress::parse(text).map_err(|_| damaged());
    let from = Mailbox::new(row.from_name.as_deref(), address(&row.from_address)?).map_err(|_| damaged())?;
    let reply_to = row.reply_to.as_deref().map(address).transpose()?.map(Mailbox::from);
    let mut dkim_keys = Vec::new();
    for key in store::active_keys(tx, &row.domain).await? {
        dkim_keys.push(open_key(tx.tenant()?, keys, &row.domain, &key.selector, &key.sealed)?);
    }
    Ok(Some(MailSender { from, reply_to, domain: row.domain, dkim_keys }))
}

fn sender_of_settings(settings: &Settings) -> Result<Option<MailSender>, CrmError> {
    if settings.sender_address.is_empty() {
        return Ok(None);
    }
    let wrong = |name: &str, error: &dyn std::fmt::Display| CrmError::Other(format!("crm.{name} is wrong: {error}"));
    let address = EmailAddress::parse(&settings.sender_address).map_err(|error| wrong("sender_address", &error))?;
    let domain = address.domain().to_owned();
    let from = Mailbox::new(Some(&settings.sender_name), address).map_err(|error| wrong("sender_name", &error))?;
    Ok(Some(MailSender { from, reply_to: None, domain, dkim_keys: Vec::new() }))
}

/// Opens a stored key.
fn open_key(
    tenant: &TenantId,
    keys: &CrmKeys,
    domain: &str,
    selector: &str,
    sealed: &SealedBytes,
) -> Result<DkimKey, CrmError> {
    let plain = keys.open(&sealing_context(tenant, domain, selector), sealed)?;
    read_key(domain, selector, &plain)
        .map_err(|error| CrmError::Other(format!("the DKIM key {selector} of {domain} cannot be used: {error}")))
}

fn read_key(domain: &str, selector: &str, plain: &[u8]) -> Result<DkimKey, DkimError> {
    match <&[u8; SEED_BYTES]>::try_from(plain) {
        Ok(seed) => DkimKey::from_ed25519_seed(domain, selector, seed),
        Err(_) => DkimKey::from_pkcs8_pem(domain, selector, plain),
    }
}

/// Returns what a key is sealed for: neither another tenant nor another name can use its row.
fn sealing_context(tenant: &TenantId, domain: &str, selector: &str) -> Vec<u8> {
    format!("dkim {tenant} {domain} {selector}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(address: &str) -> Settings {
        let secret_key = "a-key-that-is-long-enough-for-these-tests".to_owned().try_into().expect("a key");
        Settings { secret_key, sender_address: address.into(), sender_name: "Acme".into(), ..Settings::default() }
    }

    #[test]
    fn tenants_without_a_sender_use_that_of_the_settings() {
        let sender = sender_of_settings(&settings("loans@acme.example")).expect("it is valid").expect("there is one");
        assert_eq!((sender.from.address().as_str(), sender.from.name()), ("loans@acme.example", Some("Acme")));
        assert_eq!((sender.domain.as_str(), sender.dkim_keys.len()), ("acme.example", 0));
        assert!(sender_of_settings(&settings("")).expect("none is valid").is_none());
        let error = sender_of_settings(&settings("nobody")).expect_err("it is not an address");
        assert!(error.to_string().starts_with("crm.sender_address is wrong"), "{error}");
    }

    #[test]
    fn a_sealed_key_opens_for_its_tenant_domain_and_selector_only() {
        let keys = CrmKeys::new(&settings(""));
        let tenant = |name: &str| TenantId::new(name).expect("a tenant");
        let sealed =
            keys.seal(&sealing_context(&tenant("acme"), "acme.example", "s1"), &[7; SEED_BYTES]).expect("it seals");
        let open = |name: &str, domain: &str, selector: &str| open_key(&tenant(name), &keys, domain, selector, &sealed);
        let key = open("acme", "acme.example", "s1").expect("it opens");
        assert_eq!(key.record_name(), "s1._domainkey.acme.example");
        for (name, domain, selector) in
            [("rival", "acme.example", "s1"), ("acme", "other.example", "s1"), ("acme", "acme.example", "s2")]
        {
            assert!(open(name, domain, selector).is_err(), "{name} {domain} {selector}");
        }
    }
}
