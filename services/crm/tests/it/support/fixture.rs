//! The platform with crm, reachable over HTTP.

use onceward_crm::{Settings, service};
use onceward_testkit::{HttpResponse, Scratch, TestPlatform};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_postgres::{Client, types::ToSql};
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const KEY: &str = "the-key-of-the-deployment-in-these-tests";
/// The user of every token that names none.
pub const USER: &str = "tester";

/// Settings that store objects and mails in `folder`.
pub fn settings(folder: &Scratch) -> Settings {
    Settings {
        secret_key: KEY.to_owned().try_into().expect("a key"),
        objects: folder.join("objects").display().to_string(),
        folder: folder.join("mail").display().to_string(),
        sender_address: "noreply@onceward.example".to_owned(),
        ..Settings::default()
    }
}

/// An audit entry of crm.
#[derive(Clone, Debug)]
pub struct RecordedChange {
    pub event_type: String,
    pub old: Value,
    pub new: Value,
    pub payload: Value,
    /// The whole document as text, to search it.
    pub document: String,
}

pub struct CrmFixture {
    pub platform: TestPlatform,
    /// A connection that sees every tenant.
    pub owner: Client,
    /// Holds objects and mails. Removed at the end.
    pub folder: Scratch,
    pub http: reqwest::Client,
    pub url: String,
}

impl CrmFixture {
    /// Starts the API only: no mail is sent.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Like [`CrmFixture::start`], with other settings.
    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = Scratch::new();
        let mut settings = settings(&folder);
        change(&mut settings);
        Self::on_platform(TestPlatform::new(vec![service(settings)]).await, folder).await
    }

    /// Starts the API of an existing platform.
    pub async fn on_platform(mut platform: TestPlatform, folder: Scratch) -> Self {
        platform.run_relay();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, owner, folder, http, url }
    }

    /// Sends a request to `/api/crm/<path>` with every role.
    pub async fn call(&self, tenant: &str, method: Method, path: &str, body: Option<&Value>) -> HttpResponse {
        self.call_as(&self.platform.token(tenant), method, path, body).await
    }

    /// Sends a request with this token.
    pub async fn call_as(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> HttpResponse {
        let mut request = self
            .http
            .request(method, format!("{}/api/crm/{path}", self.url))
            .bearer_auth(token)
            .header("idempotency-key", Uuid::now_v7().to_string());
        if let Some(body) = body {
            request = request.json(body);
        }
        HttpResponse::to(request).await
    }

    /// Returns a token of `tenant` with these roles only.
    pub fn token_with(&self, tenant: &str, user: &str, roles: &[&str]) -> String {
        let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
        self.platform.token_for(tenant, user, &roles, 3600)
    }

    pub async fn get(&self, tenant: &str, path: &str) -> HttpResponse {
        self.call(tenant, Method::GET, path, None).await
    }

    pub async fn post(&self, tenant: &str, path: &str, body: Value) -> HttpResponse {
        self.call(tenant, Method::POST, path, Some(&body)).await
    }

    /// Posts without a body.
    pub async fn post_empty(&self, tenant: &str, path: &str) -> HttpResponse {
        self.call(tenant, Method::POST, path, None).await
    }

    pub async fn put(&self, tenant: &str, path: &str, body: Value) -> HttpResponse {
        self.call(tenant, Method::PUT, path, Some(&body)).await
    }

    pub async fn patch(&self, tenant: &str, path: &str, body: Value) -> HttpResponse {
        self.call(tenant, Method::PATCH, path, Some(&body)).await
    }

    pub async fn delete(&self, tenant: &str, path: &str) -> HttpResponse {
        self.call(tenant, Method::DELETE, path, None).await
    }

    /// Creates a person with this name and address, and returns its id.
    pub async fn create_person(&self, tenant: &str, name: &str, address: &str) -> String {
        let body = json!({ "kind": "person", "display_name": name, "addresses": [{ "address": address }] });
        let created = self.post(tenant, "contacts", body).await.with_status(201);
        created["contact_id"].as_str().expect("a string").to_owned()
    }

    /// Creates a template of this class that greets `contact.first_name`, and returns its id.
    pub async fn create_template(&self, tenant: &str, template_id: &str, class: &str) -> String {
        let body = json!({ "template_id": template_id, "class": class, "source": greeting("Hello") });
        self.post(tenant, "templates", body).await.with_status(201);
        template_id.to_owned()
    }

    /// Returns the first column of the first row, with the rights of the database's owner.
    pub async fn query<T>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        self.owner.query_one(sql, params).await.expect("the query returns a row").get(0)
    }

    /// Executes statements with the rights of the database's owner.
    pub async fn execute(&self, sql: &str) {
        self.owner.batch_execute(sql).await.expect("the statements succeed");
    }

    /// Counts the audit entries of this kind that `tenant` has.
    pub async fn count_audit_entries(&self, tenant: &str, event_type: &str) -> i64 {
        let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2";
        self.query(sql, &[&tenant, &event_type]).await
    }

    /// Returns the changes that crm recorded for `tenant`, oldest first.
    pub async fn changes(&self, tenant: &str) -> Vec<RecordedChange> {
        let sql = "SELECT event_type, document FROM audit.entry
            WHERE tenant_id = $1 AND event_type LIKE 'CRM.%' ORDER BY seq";
        let rows = self.owner.query(sql, &[&tenant]).await.expect("the chain can be read");
        let change = |row: &tokio_postgres::Row| {
            let document: String = row.get(1);
            let mut parsed: Value = serde_json::from_str(&document).expect("a document is JSON");
            RecordedChange {
                event_type: row.get(0),
                old: parsed["oldValue"].take(),
                new: parsed["newValue"].take(),
                payload: parsed["payload"].take(),
                document,
            }
        };
        rows.iter().map(change).collect()
    }

    /// Runs `action` and returns the one change that it recorded.
    pub async fn one_change(&self, tenant: &str, action: impl Future<Output = Value>) -> RecordedChange {
        let before = self.changes(tenant).await.len();
        action.await;
        let mut changes = self.changes(tenant).await.split_off(before);
        assert_eq!(changes.len(), 1, "one action records one change: {changes:#?}");
        changes.remove(0)
    }
}

/// Returns the source of a template with one variable.
pub fn greeting(word: &str) -> Value {
    json!({
        "subject": format!("{word}, {{{{ contact.first_name }}}}"),
        "html": format!("<p>{word} <b>{{{{ contact.first_name }}}}</b></p>"),
        "text": format!("{word} {{{{ contact.first_name }}}}"),
        "variables": [{ "name": "contact.first_name", "kind": "text", "example": "Ada" }],
    })
}
