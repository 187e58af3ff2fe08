//! TLS with the system's root certificates and those of the settings.

use super::{SmtpSettings, SmtpSettingsError};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Creates what opens TLS connections. Reads the system's certificates from their files.
pub(super) fn connector(settings: &SmtpSettings) -> Result<TlsConnector, SmtpSettingsError> {
    let mut roots = RootCertStore::empty();
    // A system certificate that rustls cannot use is none of ours to report.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for root in CertificateDer::pem_slice_iter(&settings.extra_roots_pem) {
        let root = root.map_err(|error| SmtpSettingsError::Roots { reason: error.to_string() })?;
        roots.add(root).map_err(|error| SmtpSettingsError::Roots { reason: error.to_string() })?;
    }
    if roots.is_empty() {
        return Err(SmtpSettingsError::NoRoots);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
