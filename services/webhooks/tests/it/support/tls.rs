//! Certificates issued for a test, and a listener that presents one.

use axum::serve::Listener;
use onceward_webhooks::trust::RootCertificates;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{fs, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use uuid::Uuid;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// A certificate authority.
pub struct CertificateAuthority(CertifiedIssuer<'static, KeyPair>);

impl CertificateAuthority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("valid parameters");
        params.distinguished_name.push(DnType::CommonName, Uuid::now_v7().to_string());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Creates a server configuration with a certificate for `name`.
    pub fn certify(&self, name: &str) -> ServerConfig {
        self.issue(CertificateParams::new([name.to_owned()]).expect("a name"))
    }

    /// Creates a server configuration with a certificate that expired years ago.
    pub fn certify_expired(&self, name: &str) -> ServerConfig {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(2020, 1, 1);
        self.issue(params)
    }

    fn issue(&self, params: CertificateParams) -> ServerConfig {
        onceward::install_crypto_provider();
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder().with_no_client_auth();
        config.with_single_cert(vec![certificate.der().clone()], key).expect("the key belongs to the certificate")
    }

    /// Returns the authority's root as an operator would configure it.
    pub fn as_root(&self) -> RootCertificates {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.pem", Uuid::now_v7()));
        fs::write(&path, self.0.pem()).expect("a folder to write in");
        let roots = path.display().to_string().try_into().expect("a root");
        fs::remove_file(&path).expect("the file is ours");
        roots
    }
}

/// Accepts TLS connections, one handshake at a time.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    pub fn new(tcp: TcpListener, config: ServerConfig) -> Self {
        Self { tcp, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.tcp).await;
            // A client that rejects the certificate disconnects.
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}
