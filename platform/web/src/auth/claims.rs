//! The claims of a token, and issuing local tokens.

use jsonwebtoken::{EncodingKey, Header};
use onceward_envelope::TenantId;
use serde::Serialize;
use serde_json::{Map, Value};

const MAX_USER_ID_CHARS: usize = 255;

/// The claims of a token issued by [`issue_hs256`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct Claims {
    /// The user.
    pub sub: String,
    /// The tenant.
    pub tenant: String,
    /// The user's roles.
    pub roles: Vec<String>,
    /// The expiry time, in seconds since 1970.
    pub exp: u64,
    /// The time from which the token is valid, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// The issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The audience.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<String>,
}

/// Signs `claims` with the secret that an `Hs256` server was configured with.
pub fn issue_hs256(secret: &[u8], claims: &Claims) -> String {
    jsonwebtoken::encode(&Header::default(), claims, &EncodingKey::from_secret(secret))
        .expect("the claims serialize to JSON, and HS256 accepts any secret")
}

/// The identity that a verified token represents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The tenant.
    pub tenant: TenantId,
    /// The token's subject.
    pub user_id: String,
    /// The user's roles.
    pub roles: Vec<String>,
}

impl Identity {
    /// Reads the claims of a token whose signature and times have been checked. Fails if a required claim is missing or
    /// malformed.
    pub(super) fn from_claims(claims: &Map<String, Value>, tenant_claim: &str) -> Result<Self, String> {
        let tenant = claims
            .get(tenant_claim)
            .and_then(Value::as_str)
            .ok_or_else(|| format!("the claim {tenant_claim}, which names the tenant, is missing"))?;
        let tenant = TenantId::new(tenant).map_err(|_| format!("the claim {tenant_claim} is not a tenant id"))?;
        let user_id = claims.get("sub").and_then(Value::as_str).unwrap_or("");
        let chars = user_id.chars().count();
        if chars == 0 || chars > MAX_USER_ID_CHARS || user_id.chars().any(char::is_control) {
            return Err("the claim sub is not a user id of 1 to 255 characters".to_owned());
        }
        Ok(Self { tenant, user_id: user_id.to_owned(), roles: roles(claims)? })
    }
}

/// Returns `roles` as an array of strings, or OAuth's space-separated `scope`.
fn roles(claims: &Map<String, Value>) -> Result<Vec<String>, String> {
    match (claims.get("roles"), claims.get("scope")) {
        (Some(Value::Array(roles)), _) => roles
            .iter()
            .map(|role| role.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| "the claim roles is not a list of strings".to_owned()),
        (Some(_), _) => Err("the claim roles is not a list of strings".to_owned()),
        (None, Some(Value::String(scope))) => Ok(scope.split_ascii_whitespace().map(str::to_owned).collect()),
        (None, _) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn identity(claims: Value) -> Result<Identity, String> {
        Identity::from_claims(claims.as_object().unwrap(), "tenant")
    }

    #[test]
    fn roles_come_from_the_list_or_from_the_scope() {
        let listed = identity(json!({"sub": "u", "tenant": "acme", "roles": ["a", "b"], "scope": "c"}));
        assert_eq!(listed.unwrap().roles, ["a", "b"]);
        let scoped = identity(json!({"sub": "u", "tenant": "acme", "scope": "a b"}));
        assert_eq!(scoped.unwrap().roles, ["a", "b"]);
        assert!(identity(json!({"sub": "u", "tenant": "acme", "roles": "admin"})).is_err());
        assert!(identity(json!({"sub": "u", "tenant": "acme", "roles": [1]})).is_err());
    }

    #[test]
    fn a_token_without_a_valid_tenant_or_user_is_rejected() {
        assert!(identity(json!({"sub": "u"})).unwrap_err().contains("tenant"));
        assert!(identity(json!({"sub": "u", "tenant": "a.b"})).unwrap_err().contains("tenant id"));
        assert!(identity(json!({"sub": "", "tenant": "acme"})).unwrap_err().contains("sub"));
        assert!(identity(json!({"sub": "a\u{0}", "tenant": "acme"})).is_err());
    }
}
