//! A small service under test, and helpers to call it.

use crate::database::Database;
use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, Request, StatusCode, header},
    response::IntoResponse,
};
use onceward_db::{Db, DbConfig, Scope};
use onceward_envelope::{SchemaRegistry, TenantId};
use onceward_web::{
    Access, AppState, AuthConfig, Authenticator, Claims, Command, Idempotency, MetricsHandle, Problem, RawBody, Reader,
    Readiness, Response, Routes, UnauthenticatedRequest, WebConfig, build_router, install_recorder, issue_hs256,
    problem::codes, routes::check,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;
use tower::ServiceExt;
use uuid::Uuid;

pub const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

#[derive(Deserialize)]
struct WriteNote {
    text: String,
}

#[derive(Serialize)]
struct Note {
    id: i64,
    text: String,
}

/// Stops a handler in the middle of its transaction, when armed.
#[derive(Default)]
pub struct HandlerPause {
    armed: AtomicBool,
    entered: Notify,
    release: Notify,
}

impl HandlerPause {
    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    pub async fn entered(&self) {
        self.entered.notified().await;
    }

    pub fn release(&self) {
        self.release.notify_one();
    }

    async fn pass(&self) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.entered.notify_one();
            self.release.notified().await;
        }
    }
}

async fn write_note(
    State(pause): State<Arc<HandlerPause>>,
    mut command: Command<WriteNote>,
) -> Result<Response, Problem> {
    let note = insert(&mut command).await?;
    pause.pass().await;
    match note.text.as_str() {
        "panic" => panic!("the handler panics on purpose"),
        "fail" => Err(Problem::internal("the handler fails on purpose")),
        _ => command.respond(StatusCode::CREATED, &note).await,
    }
}

async fn accept_note(mut command: Command<WriteNote>) -> Result<Response, Problem> {
    let note = insert(&mut command).await?;
    command.accepted(format!("/api/notes/{}", note.id), &note).await
}

async fn insert(command: &mut Command<WriteNote>) -> Result<Note, Problem> {
    let row = command
        .tx
        .query_one(
            "INSERT INTO web_test.note (tenant_id, text) VALUES ($1, $2) RETURNING id",
            &[&command.caller.tenant.as_str(), &command.body.text],
        )
        .await?;
    Ok(Note { id: row.get(0), text: command.body.text.clone() })
}

async fn list_notes(reader: Reader) -> Result<Response, Problem> {
    let rows = reader.tx.query("SELECT id, text FROM web_test.note ORDER BY id", &[]).await?;
    let notes: Vec<Note> = rows.iter().map(|row| Note { id: row.get(0), text: row.get(1) }).collect();
    reader.respond(&notes).await
}

async fn show_number(Path(number): Path<u32>) -> String {
    number.to_string()
}

async fn import_notes(command: Command<RawBody>) -> Result<Response, Problem> {
    let (file, command) = command.into_parts();
    let lines = file.bytes.split(|byte| *byte == b'\n').count();
    command.respond(StatusCode::OK, &json!({"type": file.content_type, "lines": lines})).await
}

async fn signed_note(request: UnauthenticatedRequest) -> Result<Response, Problem> {
    let tenant = request.header("x-tenant").and_then(|name| TenantId::new(name).ok());
    let tenant = tenant.ok_or_else(|| Problem::new(codes::UNAUTHORIZED).detail("name the tenant"))?;
    let text = String::from_utf8_lossy(&request.body).into_owned();
    let tx = request.begin(tenant.clone(), "provider").await?;
    tx.execute("INSERT INTO web_test.note (tenant_id, text) VALUES ($1, $2)", &[&tenant.as_str(), &text]).await?;
    if request.header("x-signature") != Some("good") {
        return Err(Problem::new(codes::UNAUTHORIZED).detail("the signature is wrong"));
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn routes(pause: Arc<HandlerPause>) -> Routes {
    Routes::new()
        .post("/api/notes", Access::role("notes:write"), write_note)
        .summary("Write a note")
        .request("note.write.v1")
        .responds(201, "note.v1")
        .get("/api/notes", Access::role("notes:read"), list_notes)
        .post("/api/accepted", Access::role("notes:write"), accept_note)
        .request("note.write.v1")
        .responds_accepted()
        .idempotency(Idempotency::Optional)
        .post("/api/import", Access::role("notes:write"), import_notes)
        .post("/hooks/notes", Access::public(), signed_note)
        .responds_empty(204)
        .get("/api/numbers/{number}", Access::public(), show_number)
        .with_state(pause)
}

pub fn schemas() -> SchemaRegistry {
    let platform = onceward_web::SCHEMAS.iter().try_fold(SchemaRegistry::builder(), |all, schema| all.add_json(schema));
    platform
        .unwrap()
        .add(json!({
            "$id": "note.write.v1",
            "type": "object",
            "required": ["text"],
            "additionalProperties": false,
            "properties": {"text": {"type": "string", "maxLength": 1000}},
        }))
        .and_then(|builder| builder.add(json!({"$id": "note.v1", "type": "object", "required": ["id", "text"]})))
        .and_then(|builder| builder.build())
        .unwrap()
}

/// The settings that a test can change.
pub struct TestConfig {
    pub config: WebConfig,
    pub auth: AuthConfig,
    pub readiness: Readiness,
    pub database_url: Option<&'static str>,
}

impl Default for TestConfig {
    fn default() -> Self {
        Self {
            config: WebConfig::default(),
            auth: AuthConfig::hs256(SECRET),
            readiness: Readiness::new(),
            database_url: None,
        }
    }
}

pub struct TestApp {
    pub router: Router,
    pub db: Db,
    pub pause: Arc<HandlerPause>,
    /// A tenant that no other test uses.
    pub tenant: String,
    pub database: Arc<Database>,
}

impl TestApp {
    pub fn new() -> Self {
        Self::with(TestConfig::default())
    }

    /// Serves these routes instead of the notes.
    pub fn serving(routes: Routes) -> Self {
        Self::start(TestConfig::default(), Arc::default(), routes)
    }

    pub fn with(config: TestConfig) -> Self {
        let pause = Arc::new(HandlerPause::default());
        Self::start(config, pause.clone(), routes(pause))
    }

    fn start(config: TestConfig, pause: Arc<HandlerPause>, routes: Routes) -> Self {
        let database = Database::get();
        let url = config.database_url.unwrap_or(&database.url);
        let db = Db::connect(DbConfig::new(url)).unwrap();
        let state = AppState::new(
            db.clone(),
            schemas(),
            Authenticator::new(config.auth).unwrap(),
            config.config,
            config.readiness,
            MetricsHandle::new(install_recorder()),
        );
        let services = vec![("notes", routes)];
        assert_eq!(check(&services, &state.schemas), []);
        let router = build_router(state, services);
        Self { router, db, pause, tenant: Uuid::new_v4().simple().to_string(), database }
    }

    /// Returns a token for a user of this test's tenant with all roles.
    pub fn token(&self) -> String {
        issue_hs256(SECRET, &self.claims())
    }

    pub fn claims(&self) -> Claims {
        Claims {
            sub: "ann".into(),
            tenant: self.tenant.clone(),
            roles: vec!["notes:write".into(), "notes:read".into()],
            exp: jsonwebtoken::get_current_timestamp() + 600,
            ..Claims::default()
        }
    }

    /// Sends `POST /api/notes` with this key and text.
    pub async fn write(&self, key: &str, text: &str) -> TestResponse {
        self.send(self.write_request(key, text)).await
    }

    pub fn write_request(&self, key: &str, text: &str) -> Request<Body> {
        post("/api/notes", &self.token(), key, json!({"text": text}).to_string())
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        let request = Request::get(path).header(header::AUTHORIZATION, format!("Bearer {}", self.token()));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub async fn send(&self, request: Request<Body>) -> TestResponse {
        TestResponse::of(self.router.clone().oneshot(request).await.unwrap()).await
    }

    /// Returns the number of notes of this test's tenant.
    pub async fn notes(&self) -> usize {
        self.count("SELECT count(*) FROM web_test.note").await
    }

    /// Returns the number of stored responses of this test's tenant.
    pub async fn keys(&self) -> usize {
        self.count("SELECT count(*) FROM onceward_web.idempotency_key").await
    }

    async fn count(&self, sql: &'static str) -> usize {
        let scope = Scope::for_tenant(TenantId::new(&self.tenant).unwrap());
        let tx = self.db.begin(scope).await.unwrap();
        let count: i64 = tx.query_one(sql, &[]).await.unwrap().get(0);
        tx.rollback().await.unwrap();
        count as usize
    }
}

pub fn post(path: &str, token: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path)
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .header("Idempotency-Key", key)
        .body(body.into())
        .unwrap()
}

#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    pub body: Value,
}

impl TestResponse {
    async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Returns a header's value; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts that this is a complete problem document with this status and code.
    #[track_caller]
    pub fn is_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("/problems/{code}"));
        assert!(self.body["instance"].as_str().unwrap().starts_with('/'));
        assert_eq!(self.body["correlationId"], self.header("x-correlation-id"));
        self
    }

    #[track_caller]
    pub fn has_detail(&self, words: &str) -> &Self {
        let detail = self.body["detail"].as_str().unwrap_or("");
        assert!(detail.contains(words), "{detail:?} does not contain {words:?}");
        self
    }
}
