//! The crypto provider of all TLS connections.

/// Installs one crypto provider for all TLS connections of the process. Further calls change nothing.
pub fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
