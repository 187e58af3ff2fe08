//! Whose certificates are believed: those that the system believes, and those that the settings add.

use reqwest::Certificate;
use rustls::{
    CertificateError, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde::Deserialize;
use std::{error::Error, fmt, fs, io};

/// Roots that are believed beside the system's. They are read with the settings, so that a wrong file keeps nobody waiting.
#[derive(Clone, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Roots(Vec<CertificateDer<'static>>);

/// Roots cannot be had from a file.
#[derive(Debug, thiserror::Error)]
#[error("extra_roots: {path} {why}; name a PEM file with the certificates of the roots")]
pub struct NoRoots {
    path: String,
    why: String,
}

impl Roots {
    pub(crate) fn certificates(&self) -> Result<Vec<Certificate>, reqwest::Error> {
        self.0.iter().map(|root| Certificate::from_der(root)).collect()
    }
}

impl TryFrom<String> for Roots {
    type Error = NoRoots;

    /// Reads the PEM file at `path`. There are none without a path.
    fn try_from(path: String) -> Result<Self, NoRoots> {
        if path.is_empty() {
            return Ok(Self::default());
        }
        match fs::read(&path) {
            Ok(pem) => read(&pem).map(Self).map_err(|why| NoRoots { path, why }),
            Err(error) => Err(NoRoots { path, why: format!("cannot be read: {error}") }),
        }
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} roots", self.0.len())
    }
}

fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let roots = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let roots = roots.map_err(|error| format!("is not PEM: {error}"))?;
    let mut store = RootCertStore::empty();
    for root in &roots {
        store.add(root.clone()).map_err(|error| format!("has a certificate that is no root: {error}"))?;
    }
    if roots.is_empty() { Err("has no certificate".to_owned()) } else { Ok(roots) }
}

/// Why a certificate was not believed, for the delivery log; `None` if `error` is about something else.
pub(crate) fn distrust(error: &(dyn Error + 'static)) -> Option<String> {
    let rustls::Error::InvalidCertificate(why) = unwrap(error)? else {
        return None;
    };
    let why = match why {
        CertificateError::UnknownIssuer => "nobody whom we trust has issued it (send the chain up to the root, too)",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name than the address has"
        }
        CertificateError::Revoked => "it was revoked",
        other => return Some(format!("its certificate is not trusted: {other:?}")),
    };
    Some(format!("its certificate is not trusted: {why}"))
}

/// Each layer below puts it into an I/O error of its own, whose `source` leaves it out.
fn unwrap<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
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
        let why = read(pem.as_bytes()).expect_err("these are no roots");
        assert!(why.contains(complaint), "{why}");
    }

    #[test]
    fn a_file_without_roots_is_refused() {
        check("", "has no certificate");
        check("-----BEGIN CERTIFICATE-----\nnothing", "is not PEM");
        check("-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n", "that is no root");
        let missing = Roots::try_from("no/such/file.pem".to_owned()).expect_err("there is none").to_string();
        assert!(missing.contains("no/such/file.pem cannot be read"), "{missing}");
    }

    #[test]
    fn the_systems_roots_are_enough_by_default() {
        assert!(Roots::try_from(String::new()).is_ok_and(|roots| roots.0.is_empty()));
    }
}
