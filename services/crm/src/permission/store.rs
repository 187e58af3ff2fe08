//! Loads what is known about recipients, by their address hashes and contacts.

use super::RecipientFacts;
use futures_util::try_join;
use onceward::{DbError, Tx};
use onceward_mail::class::MailClass;
use std::collections::HashMap;
use uuid::Uuid;

const SUPPRESSIONS: &str = "SELECT address_hash, mail_class, reason FROM crm.suppression
    WHERE address_hash = ANY ($1) AND (until IS NULL OR until > now())";
/// The contacts that have one of the addresses.
const CONTACTS: &str = "SELECT address_hash, contact_id FROM crm.contact_address WHERE address_hash = ANY ($1)";
const ERASED: &str = "SELECT contact_id FROM crm.contact WHERE contact_id = ANY ($1) AND erased_at IS NOT NULL";
const DO_NOT_CONTACT: &str = "SELECT contact_id, mail_class, reason FROM crm.do_not_contact
    WHERE contact_id = ANY ($1) AND mail_class IN ('*', $2) AND lifted_at IS NULL";
const CLASS_STOP: &str = "SELECT reason FROM crm.class_stop WHERE mail_class = $1";
/// The rule of the most specific jurisdiction of each contact.
const RULES: &str =
    "SELECT DISTINCT ON (contact.contact_id) contact.contact_id, rule.jurisdiction, rule.demand, rule.reason
    FROM crm.contact
    JOIN crm.jurisdiction_rule rule
        ON rule.mail_class = $2 AND rule.jurisdiction IN (contact.jurisdiction, left(contact.jurisdiction, 2))
    WHERE contact.contact_id = ANY ($1)
    ORDER BY contact.contact_id, length(rule.jurisdiction) DESC";
const CONSENT: &str = "SELECT DISTINCT ON (contact_id) contact_id, is_given FROM crm.consent
    WHERE contact_id = ANY ($1) AND mail_class = $2
    ORDER BY contact_id, recorded_at DESC, consent_id DESC";

/// Returns the facts for each of `hashes`, in their order. `contact_id` is the contact that the mail is for: what is known
/// about it counts for every recipient, beside what is known about the contacts that have the address.
pub(crate) async fn facts_of(
    tx: &Tx,
    class: MailClass,
    contact_id: Option<Uuid>,
    hashes: &[Vec<u8>],
) -> Result<Vec<RecipientFacts>, DbError> {
    // Independent queries are sent together, in one round trip.
    let (found, suppressed, stopped) = try_join!(
        async { tx.query(CONTACTS, &[&hashes]).await },
        async { tx.query(SUPPRESSIONS, &[&hashes]).await },
        async { tx.query_opt(CLASS_STOP, &[&class.as_str()]).await },
    )?;
    let mut contacts: HashMap<Vec<u8>, Vec<Uuid>> = HashMap::new();
    for row in found {
        contacts.entry(row.get(0)).or_default().push(row.get(1));
    }
    let mut suppressions: HashMap<Vec<u8>, Vec<(String, String)>> = HashMap::new();
    for row in suppressed {
        suppressions.entry(row.get(0)).or_default().push((row.get(1), row.get(2)));
    }
    let class_stop: Option<String> = stopped.map(|row| row.get(0));
    let of_contacts = contact_facts(tx, class, contact_id, &contacts).await?;
    let of_recipient = |hash: &Vec<u8>| {
        let mut facts = RecipientFacts {
            suppressions: suppressions.remove(hash).unwrap_or_default(),
            class_stop: class_stop.clone(),
            ..RecipientFacts::default()
        };
        let known = contacts.get(hash).into_iter().flatten().chain(&contact_id);
        for contact in known.filter_map(|id| of_contacts.get(id)) {
            facts.is_erased |= contact.is_erased;
            facts.has_consent |= contact.has_consent;
            facts.do_not_contact.extend(contact.do_not_contact.iter().cloned());
            facts.rule = facts.rule.or_else(|| contact.rule.clone());
        }
        facts
    };
    Ok(hashes.iter().map(of_recipient).collect())
}

async fn contact_facts(
    tx: &Tx,
    class: MailClass,
    contact_id: Option<Uuid>,
    contacts: &HashMap<Vec<u8>, Vec<Uuid>>,
) -> Result<HashMap<Uuid, RecipientFacts>, DbError> {
    let ids: Vec<Uuid> = contacts.values().flatten().copied().chain(contact_id).collect();
    let mut known: HashMap<Uuid, RecipientFacts> = HashMap::new();
    if ids.is_empty() {
        return Ok(known);
    }
    let class = class.as_str();
    let (erased, do_not_contact, rules, consents) = try_join!(
        async { tx.query(ERASED, &[&ids]).await },
        async { tx.query(DO_NOT_CONTACT, &[&ids, &class]).await },
        async { tx.query(RULES, &[&ids, &class]).await },
        async { tx.query(CONSENT, &[&ids, &class]).await },
    )?;
    for row in erased {
        known.entry(row.get(0)).or_default().is_erased = true;
    }
    for row in do_not_contact {
        known.entry(row.get(0)).or_default().do_not_contact.push((row.get(1), row.get(2)));
    }
    for row in rules {
        known.entry(row.get(0)).or_default().rule = Some((row.get(1), row.get(2), row.get(3)));
    }
    for row in consents {
        known.entry(row.get(0)).or_default().has_consent = row.get(1);
    }
    Ok(known)
}
