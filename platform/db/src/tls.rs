//! TLS for connections to PostgreSQL, if the URL requests it.

use crate::DbError;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Creates a connector that trusts the machine's certificate store.
pub(crate) fn connector() -> Result<MakeRustlsConnect, DbError> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| DbError::Config(format!("TLS could not be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
