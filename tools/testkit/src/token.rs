//! Tokens that platforms and processes under test accept.

use onceward::web::{Claims, issue_hs256};

/// The secret behind [`token`].
pub const SECRET: &str = "a secret for tests that is long enough";

/// Returns a token of `tenant` with these roles that outlasts any test.
pub fn token(tenant: &str, roles: &[&str]) -> String {
    let roles = roles.iter().map(|role| (*role).to_owned()).collect();
    sign(&Claims {
        sub: "tester".into(),
        tenant: tenant.to_owned(),
        roles,
        exp: u64::from(u32::MAX),
        ..Claims::default()
    })
}

pub(crate) fn sign(claims: &Claims) -> String {
    issue_hs256(SECRET.as_bytes(), claims)
}
