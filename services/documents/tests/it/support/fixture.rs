//! The service on its own database, and an HTTP client per tenant.

use onceward_documents::{Settings, service};
use onceward_testkit::{HttpResponse, TestPlatform, eventually};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use std::time::Duration;
use tokio_postgres::types::{FromSql, ToSql};
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

pub struct DocumentsFixture {
    pub platform: TestPlatform,
    owner: tokio_postgres::Client,
    http: Client,
    url: String,
}

impl DocumentsFixture {
    pub async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    pub async fn start_with(settings: Settings) -> Self {
        let mut fixture = Self::without_consumers(settings).await;
        fixture.platform.run_consumers();
        fixture
    }

    /// Serves requests; messages stay queued until consumers are started.
    pub async fn without_consumers(settings: Settings) -> Self {
        Self::on_bus(settings, None).await
    }

    /// The same on the bus at `url`, with a relay; `None` is PostgreSQL.
    pub async fn on_bus(settings: Settings, url: Option<&str>) -> Self {
        // With lending, whose consumer records the status updates.
        let lending = onceward_lending::service(onceward_lending::Settings::default());
        let mut platform = TestPlatform::on_bus(vec![lending, service(settings)], url).await;
        platform.run_relay();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, owner, http, url }
    }

    pub fn client(&self, tenant: &str) -> TenantClient<'_> {
        TenantClient { fixture: self, token: self.platform.token(tenant) }
    }

    /// Returns the first column of the first row, queried as the database owner.
    pub async fn query_value<T: for<'a> FromSql<'a>>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T {
        self.owner.query_one(sql, params).await.expect("the query returns a row").get(0)
    }

    pub async fn count_audit_entries(&self, event_type: &str, document_id: Uuid) -> i64 {
        let sql = "SELECT count(*) FROM audit.entry WHERE event_type = $1 AND object_id = $2";
        self.query_value(sql, &[&event_type, &document_id.to_string()]).await
    }

    /// Returns state and detail of the published status updates of a document, in order.
    pub async fn status_updates(&self, document_id: Uuid) -> Vec<(String, String)> {
        let sql = "SELECT payload ->> 'state', payload ->> 'detail' FROM onceward.outbox_messages
                   WHERE event_type = 'status.update.v1' AND payload ->> 'subject_id' = $1 ORDER BY created_at, id";
        let rows = self.owner.query(sql, &[&document_id.to_string()]).await.expect("the outbox can be read");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

pub struct TenantClient<'a> {
    fixture: &'a DocumentsFixture,
    token: String,
}

impl TenantClient<'_> {
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.fixture.http.request(method, format!("{}{path}", self.fixture.url)).bearer_auth(&self.token)
    }

    pub async fn get(&self, path: &str) -> HttpResponse {
        HttpResponse::to(self.request(Method::GET, path)).await
    }

    pub async fn upload(&self, content: Vec<u8>) -> HttpResponse {
        let key = Uuid::now_v7().to_string();
        let request = self.request(Method::POST, "/api/documents").header("idempotency-key", key);
        HttpResponse::to(request.header("content-type", "application/octet-stream").body(content)).await
    }

    pub async fn put(&self, id: Uuid, content: Vec<u8>) -> HttpResponse {
        HttpResponse::to(self.request(Method::PUT, &format!("/api/documents/{id}")).body(content)).await
    }

    /// Uploads a file and returns its id.
    pub async fn upload_document(&self, content: Vec<u8>) -> Uuid {
        let document = self.upload(content).await.with_status(201);
        document["document_id"].as_str().and_then(|id| id.parse().ok()).expect("a document has an id")
    }

    pub async fn analyze(&self, id: Uuid, body: Option<Value>) -> HttpResponse {
        let request = self.request(Method::POST, &format!("/api/documents/{id}/analyze"));
        HttpResponse::to(if let Some(body) = body { request.json(&body) } else { request }).await
    }

    /// Waits until the analysis has ended and returns it.
    pub async fn wait_for_analysis(&self, id: Uuid) -> Value {
        eventually("the analysis ends", || async {
            let analysis = self.get(&format!("/api/documents/{id}/analysis")).await.with_status(200);
            matches!(analysis["state"].as_str(), Some("completed" | "failed")).then_some(analysis)
        })
        .await
    }

    /// Uploads a file, requests its analysis, and waits until it has ended.
    pub async fn upload_and_analyze(&self, content: Vec<u8>) -> (Uuid, Value) {
        let id = self.upload_document(content).await;
        self.analyze(id, None).await.with_status(202);
        (id, self.wait_for_analysis(id).await)
    }

    pub async fn page_text(&self, id: Uuid, page: u32) -> String {
        let page = self.get(&format!("/api/documents/{id}/analysis/pages/{page}")).await.with_status(200);
        page["text"].as_str().expect("a page has text").to_owned()
    }
}
