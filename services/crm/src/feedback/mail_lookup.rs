//! To which recipient of which mail a returned mail belongs.
//!
//! 1. By a token that we signed: in the return path that the report was sent to, or in the header of the mail that it returns.
//! 2. A complaint also by the Message-ID of the mail that it returns, if that mail has one recipient. Everybody who has seen a
//!    mail knows its Message-ID, so this is weak evidence and is recorded as such: whoever forges it has received the mail.
//!    A bounce is never joined in this way, because a real one is sent to the return path.
//! 3. Never by an address: anybody can write an address into a report.

use super::{JoinedBy, store};
use crate::{
    CrmError,
    keys::{CrmKeys, MailReference},
    links::PREFERENCES_PATH,
};
use onceward::{Db, DbError, Scope, TenantId};
use onceward_mail::bounce::ReturnedMail;
use uuid::Uuid;

/// The local part of addresses that complaints are sent to. Mailbox providers send them to one address per domain.
const COMPLAINTS: &str = "complaints";
const RETURN_PATH: &str = "bounce+";
const ADDRESSES_MAX: usize = 50;

/// A recipient of a mail, and what proves that a report is about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportTarget {
    pub tenant: TenantId,
    pub email_id: Uuid,
    pub position: i16,
    pub joined_by: JoinedBy,
}

/// What the tokens of a report prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenProof {
    Signed(MailReference),
    /// A return path of our form that we did not sign.
    Forged,
    Missing,
}

/// Returns the tenant of a mail. Call it only with an id from a token that was verified.
pub(crate) async fn tenant_of_email(db: &Db, email_id: Uuid) -> Result<Option<TenantId>, DbError> {
    store::email_tenant(db, email_id).await
}

/// Returns whether reports are accepted for an address: a return path that we signed, or the address for complaints.
pub(crate) fn is_report_address(keys: &CrmKeys, address: &str) -> bool {
    let local = address.split('@').next().unwrap_or_default();
    keys.return_paths().parse(address).is_some() || local.eq_ignore_ascii_case(COMPLAINTS)
}

/// Looks for a token: in the envelope, in the addresses that the report was delivered to, in the header of the returned mail.
pub(super) fn token_proof(keys: &CrmKeys, envelope_recipient: Option<&str>, mail: &ReturnedMail) -> TokenProof {
    let delivered_to = mail.delivered_to.iter().map(String::as_str).take(ADDRESSES_MAX);
    let returned = |name: &'static str| {
        let fields = mail.original_headers.iter().filter(move |(field, _)| field == name);
        fields.map(|(_, value)| value.as_str()).take(ADDRESSES_MAX)
    };
    let mut is_forged = false;
    for address in envelope_recipient.into_iter().chain(delivered_to).chain(returned("return-path")) {
        if let Some(target) = keys.return_paths().parse(address.trim_matches(['<', '>', ' '])) {
            return TokenProof::Signed(MailReference { email_id: target.email_id, position: target.recipient });
        }
        is_forged |= address.trim_start_matches('<').to_ascii_lowercase().starts_with(RETURN_PATH);
    }
    let links = returned("list-unsubscribe").filter_map(|value| link_token(keys, value));
    match links.into_iter().next() {
        _ if is_forged => TokenProof::Forged,
        Some(reference) => TokenProof::Signed(reference),
        None => TokenProof::Missing,
    }
}

/// Returns the recipient that the link of a `List-Unsubscribe` field names.
fn link_token(keys: &CrmKeys, value: &str) -> Option<MailReference> {
    let (_, rest) = value.split_once(PREFERENCES_PATH)?;
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '-' | '_'));
    keys.read_link_token(&rest[..end.unwrap_or(rest.len())])
}

/// Returns the recipient of a token.
pub(super) async fn by_token(db: &Db, reference: MailReference) -> Result<Option<ReportTarget>, CrmError> {
    let MailReference { email_id, position } = reference;
    let (Some(tenant), Ok(position)) = (tenant_of_email(db, email_id).await?, i16::try_from(position)) else {
        return Ok(None);
    };
    Ok(Some(ReportTarget { tenant, email_id, position, joined_by: JoinedBy::Token }))
}

/// Returns the only recipient of the mail with this Message-ID, which begins with the mail's id.
pub(super) async fn by_message_id(db: &Db, message_id: &str) -> Result<Option<ReportTarget>, CrmError> {
    let id = message_id.trim_start_matches('<').split('@').next().and_then(|id| id.parse::<Uuid>().ok());
    let Some(email_id) = id else { return Ok(None) };
    let Some(tenant) = store::email_tenant(db, email_id).await? else { return Ok(None) };
    let tx = db.begin(Scope::for_tenant(tenant.clone())).await?;
    let positions = store::message_id_recipients(&tx, email_id, message_id).await?;
    tx.rollback().await?;
    let [position] = positions[..] else { return Ok(None) };
    Ok(Some(ReportTarget { tenant, email_id, position, joined_by: JoinedBy::MessageId }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use onceward_mail::{bounce::ReturnedMailKind, return_path::BounceTarget};

    fn keys(secret: &str) -> CrmKeys {
        let secret_key = secret.to_owned().try_into().expect("a key");
        CrmKeys::new(&Settings { secret_key, ..Settings::default() })
    }

    fn report(headers: &[(&str, &str)]) -> ReturnedMail {
        ReturnedMail {
            kind: ReturnedMailKind::Complaint,
            recipients: Vec::new(),
            returned_message_id: None,
            delivered_to: Vec::new(),
            original_headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        }
    }

    #[test]
    fn a_token_is_found_in_the_envelope_and_in_the_returned_header_and_a_forged_one_is_noticed() {
        let (keys, others) =
            (keys("a-secret-of-at-least-thirty-two-bytes"), keys("another-secret-of-thirty-two-bytes!!"));
        let reference = MailReference { email_id: Uuid::now_v7(), position: 1 };
        let target = BounceTarget { email_id: reference.email_id, recipient: 1 };
        let ours = keys.return_paths().address(target, "example.com");
        let forged = others.return_paths().address(target, "example.com");
        let link = |keys: &CrmKeys| {
            format!("<https://example.com/crm/u/{}>, <mailto:x@y.example>", keys.link_token(reference))
        };
        let none = report(&[]);
        assert_eq!(token_proof(&keys, Some(&ours), &none), TokenProof::Signed(reference));
        assert_eq!(token_proof(&keys, Some(&forged), &none), TokenProof::Forged);
        assert_eq!(token_proof(&keys, Some("complaints@example.com"), &none), TokenProof::Missing);
        let signed = report(&[("list-unsubscribe", &link(&keys))]);
        assert_eq!(token_proof(&keys, Some("complaints@example.com"), &signed), TokenProof::Signed(reference));
        assert_eq!(token_proof(&keys, Some(&forged), &signed), TokenProof::Forged);
        let unsigned = report(&[("list-unsubscribe", &link(&others))]);
        assert_eq!(token_proof(&keys, None, &unsigned), TokenProof::Missing);
        assert!(is_report_address(&keys, &ours) && is_report_address(&keys, "Complaints@example.com"));
        assert!(!is_report_address(&keys, &forged) && !is_report_address(&keys, "ada@example.com"));
    }
}
