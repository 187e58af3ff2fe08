//! Who may call a route, and how other callers are rejected.

use crate::support::{SECRET, TestApp, TestConfig, TestResponse, post};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use onceward_web::{AuthConfig, Claims, JwksSource, issue_hs256};
use serde_json::json;
use std::path::Path;

const PRIVATE_KEY: &[u8] = include_bytes!("fixtures/rsa_test_only.pem");
const KEY_SET: &str = include_str!("fixtures/jwks.json");

async fn call(app: &TestApp, token: &str) -> TestResponse {
    app.send(post("/api/notes", token, "k", r#"{"text":"hello"}"#)).await
}

async fn call_with(app: &TestApp, claims: Claims) -> TestResponse {
    call(app, &issue_hs256(SECRET, &claims)).await
}

#[tokio::test]
async fn no_token_is_a_401_with_a_challenge() {
    let app = TestApp::new();
    let mut request = app.write_request("k", "hello");
    request.headers_mut().remove("authorization");
    let response = app.send(request).await;
    response.is_problem(401, "unauthorized");
    assert_eq!(response.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn expired_and_future_tokens_are_rejected_with_a_reason() {
    let app = TestApp::new();
    let now = get_current_timestamp();
    let expired = Claims { exp: now - 120, ..app.claims() };
    let response = call_with(&app, expired).await;
    response.is_problem(401, "unauthorized").has_detail("expired");
    assert!(response.header("www-authenticate").contains("invalid_token"));
    let early = Claims { nbf: Some(now + 120), ..app.claims() };
    call_with(&app, early).await.is_problem(401, "unauthorized").has_detail("not valid yet");
    let barely = Claims { exp: now - 5, ..app.claims() };
    assert_eq!(call_with(&app, barely).await.status, 201);
}

#[tokio::test]
async fn a_token_without_an_expiry_is_rejected() {
    let app = TestApp::new();
    let claims = json!({"sub": "ann", "tenant": app.tenant, "roles": ["notes:write"]});
    let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET)).unwrap();
    call(&app, &token).await.is_problem(401, "unauthorized").has_detail("exp is missing");
}

#[tokio::test]
async fn a_token_signed_with_another_key_is_rejected() {
    let app = TestApp::new();
    let token = issue_hs256(b"another secret of thirty-two bytes!!", &app.claims());
    call(&app, &token).await.is_problem(401, "unauthorized").has_detail("signature");
    assert_eq!(app.notes().await, 0);
}

#[tokio::test]
async fn a_token_without_a_signature_is_rejected() {
    let app = TestApp::new();
    let signed = app.token();
    let claims = signed.split('.').nth(1).unwrap();
    // {"typ":"JWT","alg":"none"}
    let none = format!("eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.{claims}.");
    call(&app, &none).await.is_problem(401, "unauthorized");
    let cut = signed.rsplit_once('.').unwrap().0;
    call(&app, &format!("{cut}.")).await.is_problem(401, "unauthorized");
    call(&app, "nonsense").await.is_problem(401, "unauthorized").has_detail("malformed");
}

#[tokio::test]
async fn a_token_with_another_algorithm_is_rejected() {
    let app = TestApp::new();
    let key = EncodingKey::from_secret(SECRET);
    let token = encode(&Header::new(Algorithm::HS512), &app.claims(), &key).unwrap();
    call(&app, &token).await.is_problem(401, "unauthorized").has_detail("algorithm");
}

#[tokio::test]
async fn issuer_and_audience_must_be_present_and_match() {
    let auth = AuthConfig {
        issuer: Some("https://id.example".into()),
        audience: Some("onceward".into()),
        ..AuthConfig::hs256(SECRET)
    };
    let app = TestApp::with(TestConfig { auth, ..TestConfig::default() });
    let right = Claims { iss: Some("https://id.example".into()), aud: Some("onceward".into()), ..app.claims() };
    assert_eq!(call_with(&app, right.clone()).await.status, 201);
    let audience = Claims { aud: Some("elsewhere".into()), ..right.clone() };
    call_with(&app, audience).await.is_problem(401, "unauthorized").has_detail("audience");
    let issuer = Claims { iss: Some("https://evil.example".into()), ..right.clone() };
    call_with(&app, issuer).await.is_problem(401, "unauthorized").has_detail("issuer");
    let neither = Claims { aud: None, ..right };
    call_with(&app, neither).await.is_problem(401, "unauthorized").has_detail("aud is missing");
}

#[tokio::test]
async fn a_missing_role_is_a_403_that_names_it() {
    let app = TestApp::new();
    let claims = Claims { roles: vec!["notes:read".into()], ..app.claims() };
    call_with(&app, claims).await.is_problem(403, "forbidden").has_detail("notes:write");
    assert_eq!(app.notes().await, 0);
}

fn rs256(app: &TestApp, kid: &str) -> String {
    let mut header = Header::new(Algorithm::RS256);
    header.kid = Some(kid.to_owned());
    encode(&header, &app.claims(), &EncodingKey::from_rsa_pem(PRIVATE_KEY).unwrap()).unwrap()
}

#[tokio::test]
async fn an_rs256_token_is_checked_with_the_key_it_names_in_a_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/jwks.json");
    let app = TestApp::with(TestConfig { auth: AuthConfig::jwks(JwksSource::File(file)), ..TestConfig::default() });
    assert_eq!(call(&app, &rs256(&app, "test-1")).await.status, 201);
    call(&app, &rs256(&app, "test-2")).await.is_problem(401, "unauthorized").has_detail("does not know");
    let mut forged = rs256(&app, "test-1");
    forged.replace_range(forged.len() - 8.., "AAAAAAAA");
    call(&app, &forged).await.is_problem(401, "unauthorized").has_detail("signature");
}

#[tokio::test]
async fn a_public_key_cannot_be_used_as_a_secret() {
    let set = serde_json::from_str(KEY_SET).unwrap();
    let app = TestApp::with(TestConfig { auth: AuthConfig::jwks(JwksSource::Inline(set)), ..TestConfig::default() });
    let forged = issue_hs256(KEY_SET.as_bytes(), &app.claims());
    call(&app, &forged).await.is_problem(401, "unauthorized").has_detail("algorithm");
}

#[tokio::test]
async fn an_unreachable_key_set_is_a_503_until_it_can_be_loaded() {
    let offline = TestApp::with(TestConfig {
        auth: AuthConfig::jwks(JwksSource::Url("http://127.0.0.1:1/jwks".into())),
        ..TestConfig::default()
    });
    let response = call(&offline, &rs256(&offline, "test-1")).await;
    response.is_problem(503, "keys-unavailable");
    assert_eq!(response.header("retry-after"), "5");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let provider = axum::Router::new().route("/jwks", axum::routing::get(|| async { KEY_SET }));
    tokio::spawn(async move { axum::serve(listener, provider).await });
    let app = TestApp::with(TestConfig { auth: AuthConfig::jwks(JwksSource::Url(url)), ..TestConfig::default() });
    assert_eq!(call(&app, &rs256(&app, "test-1")).await.status, 201);
}
