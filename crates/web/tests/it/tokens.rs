//! Who may call, and in which words the others are refused.

use crate::support::{Answer, App, SECRET, Setup, post};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use onceward_web::{AuthConfig, Claims, JwksSource, issue_hs256};
use serde_json::json;
use std::path::Path;

const PRIVATE_KEY: &[u8] = include_bytes!("fixtures/rsa_test_only.pem");
const KEY_SET: &str = include_str!("fixtures/jwks.json");

async fn call(app: &App, token: &str) -> Answer {
    app.send(post("/api/notes", token, "k", r#"{"text":"hello"}"#)).await
}

async fn call_with(app: &App, claims: Claims) -> Answer {
    call(app, &issue_hs256(SECRET, &claims)).await
}

#[tokio::test]
async fn no_token_is_a_401_with_a_challenge() {
    let app = App::new();
    let mut request = app.write_request("k", "hello");
    request.headers_mut().remove("authorization");
    let answer = app.send(request).await;
    answer.is_problem(401, "unauthorized");
    assert_eq!(answer.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn times_are_checked_and_said_in_words() {
    let app = App::new();
    let now = get_current_timestamp();
    let expired = Claims { exp: now - 120, ..app.claims() };
    let answer = call_with(&app, expired).await;
    answer.is_problem(401, "unauthorized").says("expired");
    assert!(answer.header("www-authenticate").contains("invalid_token"));
    let early = Claims { nbf: Some(now + 120), ..app.claims() };
    call_with(&app, early).await.is_problem(401, "unauthorized").says("not valid yet");
    let barely = Claims { exp: now - 5, ..app.claims() };
    assert_eq!(call_with(&app, barely).await.status, 201);
}

#[tokio::test]
async fn a_token_without_an_end_is_refused() {
    let app = App::new();
    let claims = json!({"sub": "ann", "tenant": app.tenant, "roles": ["notes:write"]});
    let token = encode(&Header::default(), &claims, &EncodingKey::from_secret(SECRET)).unwrap();
    call(&app, &token).await.is_problem(401, "unauthorized").says("exp is missing");
}

#[tokio::test]
async fn a_token_of_a_foreign_key_is_refused() {
    let app = App::new();
    let token = issue_hs256(b"another secret of thirty-two bytes!!", &app.claims());
    call(&app, &token).await.is_problem(401, "unauthorized").says("signature");
    assert_eq!(app.notes().await, 0);
}

#[tokio::test]
async fn a_token_without_a_signature_is_refused() {
    let app = App::new();
    let signed = app.token();
    let claims = signed.split('.').nth(1).unwrap();
    // {"typ":"JWT","alg":"none"}
    let none = format!("eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0.{claims}.");
    call(&app, &none).await.is_problem(401, "unauthorized");
    let cut = signed.rsplit_once('.').unwrap().0;
    call(&app, &format!("{cut}.")).await.is_problem(401, "unauthorized");
    call(&app, "nonsense").await.is_problem(401, "unauthorized").says("malformed");
}

#[tokio::test]
async fn another_algorithm_of_the_same_secret_is_refused() {
    let app = App::new();
    let key = EncodingKey::from_secret(SECRET);
    let token = encode(&Header::new(Algorithm::HS512), &app.claims(), &key).unwrap();
    call(&app, &token).await.is_problem(401, "unauthorized").says("algorithm");
}

#[tokio::test]
async fn issuer_and_audience_must_be_there_and_match() {
    let auth = AuthConfig {
        issuer: Some("https://id.example".into()),
        audience: Some("onceward".into()),
        ..AuthConfig::hs256(SECRET)
    };
    let app = App::with(Setup { auth, ..Setup::default() });
    let right = Claims { iss: Some("https://id.example".into()), aud: Some("onceward".into()), ..app.claims() };
    assert_eq!(call_with(&app, right.clone()).await.status, 201);
    let audience = Claims { aud: Some("elsewhere".into()), ..right.clone() };
    call_with(&app, audience).await.is_problem(401, "unauthorized").says("audience");
    let issuer = Claims { iss: Some("https://evil.example".into()), ..right.clone() };
    call_with(&app, issuer).await.is_problem(401, "unauthorized").says("issuer");
    let neither = Claims { aud: None, ..right };
    call_with(&app, neither).await.is_problem(401, "unauthorized").says("aud is missing");
}

#[tokio::test]
async fn a_missing_role_is_a_403_that_names_it() {
    let app = App::new();
    let claims = Claims { roles: vec!["notes:read".into()], ..app.claims() };
    call_with(&app, claims).await.is_problem(403, "forbidden").says("notes:write");
    assert_eq!(app.notes().await, 0);
}

fn rs256(app: &App, kid: &str) -> String {
    let mut header = Header::new(Algorithm::RS256);
    header.kid = Some(kid.to_owned());
    encode(&header, &app.claims(), &EncodingKey::from_rsa_pem(PRIVATE_KEY).unwrap()).unwrap()
}

#[tokio::test]
async fn an_rs256_token_is_checked_with_the_key_it_names_in_a_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/jwks.json");
    let app = App::with(Setup { auth: AuthConfig::jwks(JwksSource::File(file)), ..Setup::default() });
    assert_eq!(call(&app, &rs256(&app, "test-1")).await.status, 201);
    call(&app, &rs256(&app, "test-2")).await.is_problem(401, "unauthorized").says("does not know");
    let mut forged = rs256(&app, "test-1");
    forged.replace_range(forged.len() - 8.., "AAAAAAAA");
    call(&app, &forged).await.is_problem(401, "unauthorized").says("signature");
}

#[tokio::test]
async fn a_public_key_cannot_be_used_as_a_secret() {
    let set = serde_json::from_str(KEY_SET).unwrap();
    let app = App::with(Setup { auth: AuthConfig::jwks(JwksSource::Inline(set)), ..Setup::default() });
    let forged = issue_hs256(KEY_SET.as_bytes(), &app.claims());
    call(&app, &forged).await.is_problem(401, "unauthorized").says("algorithm");
}

#[tokio::test]
async fn keys_behind_a_url_that_is_away_are_a_503_until_they_come() {
    let away = App::with(Setup {
        auth: AuthConfig::jwks(JwksSource::Url("http://127.0.0.1:1/jwks".into())),
        ..Setup::default()
    });
    let answer = call(&away, &rs256(&away, "test-1")).await;
    answer.is_problem(503, "keys-unavailable");
    assert_eq!(answer.header("retry-after"), "5");

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let provider = axum::Router::new().route("/jwks", axum::routing::get(|| async { KEY_SET }));
    tokio::spawn(async move { axum::serve(listener, provider).await });
    let app = App::with(Setup { auth: AuthConfig::jwks(JwksSource::Url(url)), ..Setup::default() });
    assert_eq!(call(&app, &rs256(&app, "test-1")).await.status, 201);
}
