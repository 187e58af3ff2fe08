//! A private key with the name under which its public half is published.

use super::DkimError;
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use sha2::{Digest, Sha256};
use std::fmt;

/// The DER of `rsaEncryption` with its NULL parameters, as in every public RSA key.
const RSA_ALGORITHM: [u8; 15] = [0x30, 13, 6, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 1, 5, 0];
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// A key for signing. `Debug` shows the domain and the selector, never the key.
pub struct DkimKey {
    domain: String,
    selector: String,
    secret: Secret,
}

enum Secret {
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl DkimKey {
    /// Reads an RSA or Ed25519 key from PEM. The public half is to be published at `<selector>._domainkey.<domain>`.
    pub fn from_pkcs8_pem(domain: &str, selector: &str, pem: &[u8]) -> Result<Self, DkimError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| DkimError::NotPkcs8)?;
        let der = der.secret_pkcs8_der();
        // openssl writes Ed25519 keys without the public half, which the checked function demands.
        let secret = match Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            Ok(pair) => Secret::Ed25519(pair),
            Err(_) => Secret::Rsa(Box::new(RsaKeyPair::from_pkcs8(der).map_err(|_| DkimError::UnusableKey)?)),
        };
        Self::new(domain, selector, secret)
    }

    /// Creates an Ed25519 key from its seed.
    pub fn from_ed25519_seed(domain: &str, selector: &str, seed: &[u8; 32]) -> Result<Self, DkimError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| DkimError::UnusableKey)?;
        Self::new(domain, selector, Secret::Ed25519(pair))
    }

    fn new(domain: &str, selector: &str, secret: Secret) -> Result<Self, DkimError> {
        let domain = idna::domain_to_ascii_strict(domain).map_err(|_| DkimError::InvalidName)?;
        let selector = idna::domain_to_ascii_strict(selector).map_err(|_| DkimError::InvalidName)?;
        if !domain.contains('.') || selector.is_empty() {
            return Err(DkimError::InvalidName);
        }
        Ok(Self { domain, selector, secret })
    }

    /// Returns the domain, `d=`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the selector, `s=`.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// Returns the name in DNS under which receivers look for [`DkimKey::public_record`].
    pub fn record_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    /// Returns the value of the TXT record. A record of RSA is longer than the 255 bytes of one string in DNS, and has
    /// to be entered as several strings, which receivers join.
    pub fn public_record(&self) -> String {
        match &self.secret {
            Secret::Rsa(pair) => {
                format!("v=DKIM1; k=rsa; p={}", STANDARD.encode(public_key_info(pair.public_key().as_ref())))
            }
            Secret::Ed25519(pair) => format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(pair.public_key())),
        }
    }

    /// Returns the algorithm, `a=`.
    pub(super) fn algorithm(&self) -> &'static str {
        match self.secret {
            Secret::Rsa(_) => "rsa-sha256",
            Secret::Ed25519(_) => "ed25519-sha256",
        }
    }

    /// Signs the canonical headers. Ed25519 signs their SHA-256, as RFC 8463 has it.
    pub(super) fn sign(&self, canonical: &[u8]) -> Result<Vec<u8>, DkimError> {
        match &self.secret {
            Secret::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), canonical, &mut signature)
                    .map_err(|_| DkimError::SigningFailed)?;
                Ok(signature)
            }
            Secret::Ed25519(pair) => Ok(pair.sign(&Sha256::digest(canonical)).as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for DkimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DkimKey");
        shown.field("domain", &self.domain).field("selector", &self.selector).finish_non_exhaustive()
    }
}

/// Wraps the key of PKCS#1 that ring returns into the SubjectPublicKeyInfo that DNS holds.
fn public_key_info(pkcs1: &[u8]) -> Vec<u8> {
    let bits = [&[0][..], pkcs1].concat();
    der(SEQUENCE, &[&RSA_ALGORITHM[..], &der(BIT_STRING, &bits)].concat())
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
    let mut encoded = vec![tag];
    if content.len() >= 0x80 {
        // At most eight bytes of length.
        encoded.push(0x80 | significant.len() as u8);
    }
    encoded.extend_from_slice(significant);
    encoded.extend_from_slice(content);
    encoded
}
