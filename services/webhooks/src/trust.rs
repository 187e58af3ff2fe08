//! The root certificates that are trusted: those of the system, and those that the settings add.

use reqwest::Certificate;
use rustls::{
    CertificateError, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde::Deserialize;
use std::{error::Error, fmt, fs, io};

/// Root certificates trusted in addition to the system's. They are read with the settings, so that a wrong file is
/// reported at once.
#[derive(Clone, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct RootCertificates(Vec<CertificateDer<'static>>);

/// The error for a file from which no root certificates can be read.
#[derive(Debug, thiserror::Error)]
#[error("extra_roots: {path} {reason}; set it to a PEM file with root certificates")]
pub struct InvalidRootCertificates {
    path: String,
    reason: String,
}

impl RootCertificates {
    pub(crate) fn certificates(&self) -> Result<Vec<Certificate>, reqwest::Error> {
        self.0.iter().map(|root| Certificate::from_der(root)).collect()
    }
}

impl TryFrom<String> for RootCertificates {
    type Error = InvalidRootCertificates;

    /// Reads the PEM file at `path`. An empty path means no additional roots.
    fn try_from(path: String) -> Result<Self, InvalidRootCertificates> {
        if path.is_empty() {
            return Ok(Self::default());
        }
        match fs::read(&path) {
            Ok(pem) => parse_roots(&pem).map(Self).map_err(|reason| InvalidRootCertificates { path, reason }),
            Err(error) => Err(InvalidRootCertificates { path, reason: format!("cannot be read: {error}") }),
        }
    }
}

impl fmt::Debug for RootCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} root certificates", self.0.len())
    }
}

fn parse_roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let roots = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let roots = roots.map_err(|error| format!("is not PEM: {error}"))?;
    let mut store = RootCertStore::empty();
    for root in &roots {
        store.add(root.clone()).map_err(|error| format!("contains a certificate that cannot be a root: {error}"))?;
    }
    if roots.is_empty() { Err("contains no certificate".to_owned()) } else { Ok(roots) }
}

/// Explains for the delivery log why a certificate was not trusted; `None` if `error` is about something else.
pub(crate) fn explain_certificate_error(error: &(dyn Error + 'static)) -> Option<String> {
    let rustls::Error::InvalidCertificate(cause) = find_tls_error(error)? else {
        return None;
    };
    let reason = match cause {
        CertificateError::UnknownIssuer => {
            "no trusted authority issued it (the receiver must also send the intermediate certificates)"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it was issued for another name than that of the URL"
        }
        CertificateError::Revoked => "it was revoked",
        other => return Some(format!("its certificate is not trusted: {other:?}")),
    };
    Some(format!("its certificate is not trusted: {reason}"))
}

/// Finds the TLS error in a chain of I/O errors. Each layer wraps it into another one, whose `source` skips it.
fn find_tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    let mut inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    while let Some(deeper) = inner.downcast_ref::<io::Error>() {
        inner = deeper.get_ref()?;
    }
    inner.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pem: &str, complaint: &str) {
        let reason = parse_roots(pem.as_bytes()).expect_err("the file has no valid roots");
        assert!(reason.contains(complaint), "{reason}");
    }

    #[test]
    fn a_file_without_root_certificates_is_rejected() {
        check("", "contains no certificate");
        check("-----BEGIN CERTIFICATE-----\nnothing", "is not PEM");
        check("-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n", "cannot be a root");
        let missing =
            RootCertificates::try_from("no/such/file.pem".to_owned()).expect_err("the file does not exist").to_string();
        assert!(missing.contains("no/such/file.pem cannot be read"), "{missing}");
    }

    #[test]
    fn the_systems_roots_are_enough_by_default() {
        assert!(RootCertificates::try_from(String::new()).is_ok_and(|roots| roots.0.is_empty()));
    }
}
