//! Signed links: which recipient of which mail a link belongs to. They do not expire.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

const SIGNATURE_BYTES: usize = 16;
const REFERENCE_BYTES: usize = 18;

/// One recipient of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MailReference {
    pub email_id: Uuid,
    pub position: u16,
}

impl MailReference {
    /// Returns the token of a link that is signed with `secret`.
    pub(super) fn token(self, secret: &[u8; 32]) -> String {
        let mut bytes = self.email_id.as_bytes().to_vec();
        bytes.extend(self.position.to_be_bytes());
        let signature = mac(secret, &bytes).finalize().into_bytes();
        bytes.extend(&signature[..SIGNATURE_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the reference if one of `secrets` signed the token.
    pub(super) fn from_token(token: &str, secrets: &[[u8; 32]]) -> Option<Self> {
        let bytes =
            URL_SAFE_NO_PAD.decode(token).ok().filter(|bytes| bytes.len() == REFERENCE_BYTES + SIGNATURE_BYTES)?;
        let (reference, signature) = bytes.split_at(REFERENCE_BYTES);
        secrets.iter().find(|secret| mac(secret, reference).verify_truncated_left(signature).is_ok())?;
        let (email_id, position) = reference.split_at(16);
        Some(Self {
            email_id: Uuid::from_slice(email_id).ok()?,
            position: u16::from_be_bytes(position.try_into().ok()?),
        })
    }
}

fn mac(secret: &[u8; 32], bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC accepts keys of any length");
    mac.update(bytes);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_that_a_known_secret_signed_are_accepted() {
        let reference = MailReference { email_id: Uuid::now_v7(), position: 3 };
        let token = reference.token(&[1; 32]);
        assert_eq!(MailReference::from_token(&token, &[[2; 32], [1; 32]]), Some(reference));
        assert_eq!(MailReference::from_token(&token, &[[2; 32]]), None);
        assert_eq!(MailReference::from_token(&token[1..], &[[1; 32]]), None);
        let mut forged = URL_SAFE_NO_PAD.decode(&token).unwrap();
        forged[17] ^= 1;
        assert_eq!(MailReference::from_token(&URL_SAFE_NO_PAD.encode(forged), &[[1; 32]]), None);
    }
}
