//! The service on a database of its own, and a tenant's user who works with it.

use onceward_documents::{Settings, service};
use onceward_testkit::{TestPlatform, eventually};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use std::time::Duration;
use tokio_postgres::types::{FromSql, ToSql};
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

pub struct Archive {
    pub platform: TestPlatform,
    owner: tokio_postgres::Client,
    http: Client,
    url: String,
}

impl Archive {
    pub async fn open() -> Self {
        Self::open_with(Settings::default()).await
    }

    pub async fn open_with(settings: Settings) -> Self {
        let mut archive = Self::without_consumers(settings).await;
        archive.platform.run_consumers();
        archive
    }

    /// Serves requests; messages wait until consumers are started.
    pub async fn without_consumers(settings: Settings) -> Self {
        // Beside lending, whose worker notes what is told.
        let lending = onceward_lending::service(onceward_lending::Settings::default());
        let mut platform = TestPlatform::new(vec![lending, service(settings)]).await;
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, owner, http, url }
    }

    pub fn clerk(&self, tenant: &str) -> Clerk<'_> {
        Clerk { archive: self, token: self.platform.token(tenant) }
    }

    /// The first column of the first row, as the owner sees it.
    pub async fn ask<T: for<'a> FromSql<'a>>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T {
        self.owner.query_one(sql, params).await.expect("a query that gives a row").get(0)
    }

    pub async fn audited(&self, event_type: &str, document_id: Uuid) -> i64 {
        let sql = "SELECT count(*) FROM audit.entry WHERE event_type = $1 AND object_id = $2";
        self.ask(sql, &[&event_type, &document_id.to_string()]).await
    }

    /// What was told about a document, in the order in which it was told: state and detail.
    pub async fn told(&self, document_id: Uuid) -> Vec<(String, String)> {
        let sql = "SELECT payload ->> 'state', payload ->> 'detail' FROM onceward.outbox_messages
                   WHERE event_type = 'status.update.v1' AND payload ->> 'subject_id' = $1 ORDER BY created_at, id";
        let rows = self.owner.query(sql, &[&document_id.to_string()]).await.expect("the outbox can be read");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

pub struct Clerk<'a> {
    archive: &'a Archive,
    token: String,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub location: Option<String>,
    pub body: Value,
}

impl Answer {
    #[track_caller]
    pub fn with_status(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

impl Clerk<'_> {
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.archive.http.request(method, format!("{}{path}", self.archive.url)).bearer_auth(&self.token)
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn upload(&self, content: Vec<u8>) -> Answer {
        let key = Uuid::now_v7().to_string();
        let request = self.request(Method::POST, "/api/documents").header("idempotency-key", key);
        answer(request.header("content-type", "application/octet-stream").body(content)).await
    }

    pub async fn put(&self, id: Uuid, content: Vec<u8>) -> Answer {
        answer(self.request(Method::PUT, &format!("/api/documents/{id}")).body(content)).await
    }

    pub async fn document(&self, content: Vec<u8>) -> Uuid {
        let document = self.upload(content).await.with_status(201);
        document["document_id"].as_str().and_then(|id| id.parse().ok()).expect("a document has an id")
    }

    pub async fn analyze(&self, id: Uuid, body: Option<Value>) -> Answer {
        let request = self.request(Method::POST, &format!("/api/documents/{id}/analyze"));
        answer(if let Some(body) = body { request.json(&body) } else { request }).await
    }

    /// The analysis, once it is no longer under way.
    pub async fn finished(&self, id: Uuid) -> Value {
        eventually("the analysis ends", || async {
            let analysis = self.get(&format!("/api/documents/{id}/analysis")).await.with_status(200);
            matches!(analysis["state"].as_str(), Some("completed" | "failed")).then_some(analysis)
        })
        .await
    }

    /// Uploads, asks, waits.
    pub async fn read(&self, content: Vec<u8>) -> (Uuid, Value) {
        let id = self.document(content).await;
        self.analyze(id, None).await.with_status(202);
        (id, self.finished(id).await)
    }

    pub async fn page(&self, id: Uuid, page: u32) -> String {
        let page = self.get(&format!("/api/documents/{id}/analysis/pages/{page}")).await.with_status(200);
        page["text"].as_str().expect("a page has text").to_owned()
    }
}

pub async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.expect("the service answers");
    let status = response.status().as_u16();
    let location = response.headers().get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let text = response.text().await.expect("a body");
    Answer { status, location, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}
