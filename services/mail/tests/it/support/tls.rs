//! Certificates issued for a test.

use rcgen::{CertifiedKey, generate_simple_self_signed};

/// A certificate that is its own root, with its key, both in PEM.
pub struct TestCertificate {
    pub certificate: String,
    pub key: String,
}

pub fn certificate_for(name: &str) -> TestCertificate {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).expect("a certificate");
    TestCertificate { certificate: cert.pem(), key: signing_key.serialize_pem() }
}
