//! The platform with a publisher and webhooks, reachable over HTTP.

use super::{SHOP_EVENTS, WebhookReceiver, publish_sales, shop_service};
use onceward::{NewMessage, Platform, Scope, TenantId, outbox};
use onceward_testkit::{HttpResponse, TestPlatform, eventually};
use onceward_webhooks::{Settings, service};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_postgres::{Client, types::ToSql};
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

pub const KEY: &str = "the-key-of-the-deployment-in-these-tests";

/// Settings for receivers on this machine, with fast retries.
pub fn settings() -> Settings {
    Settings {
        secret_key: KEY.to_owned().try_into().expect("a key"),
        allow_http: true,
        allowed_networks: "127.0.0.1/32".parse().expect("a network"),
        retry_schedule: "0ms 20ms 20ms".parse().expect("a schedule"),
        poll_ms: 20,
        ..Settings::default()
    }
}

pub struct WebhooksFixture {
    pub platform: TestPlatform,
    pub receiver: WebhookReceiver,
    /// A connection that sees every tenant.
    pub owner: Client,
    http: reqwest::Client,
    url: String,
}

impl WebhooksFixture {
    /// Starts the API, the consumers and the dispatcher.
    pub async fn start(settings: Settings) -> Self {
        let mut fixture = Self::start_api_only(settings, None).await;
        fixture.platform.run_consumers();
        fixture
    }

    /// Starts the API only: events are neither fanned out nor sent.
    pub async fn start_api_only(settings: Settings, bus: Option<&str>) -> Self {
        Self::on_platform(TestPlatform::on_bus(vec![shop_service(), service(settings, vec![SHOP_EVENTS])], bus).await)
            .await
    }

    /// Starts the API of an existing platform.
    pub async fn on_platform(mut platform: TestPlatform) -> Self {
        platform.run_relay();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, receiver: WebhookReceiver::start().await, owner, http, url }
    }

    /// Stops every task and starts again on the same database with other settings.
    pub async fn restart(self, settings: Settings) -> Self {
        let (finished, database) = self.platform.stop().await;
        assert!(finished, "everything in flight was finished");
        let platform = Platform::assemble(vec![shop_service(), service(settings, vec![SHOP_EVENTS])])
            .expect("the services are valid");
        let mut platform = TestPlatform::on(database, platform);
        platform.run_consumers();
        Self { url: platform.serve_http().await, platform, ..self }
    }

    pub async fn call(&self, tenant: &str, method: Method, path: &str, body: Option<&Value>) -> HttpResponse {
        self.call_with_key(&Uuid::now_v7().to_string(), tenant, method, path, body).await
    }

    /// Sends a request with this idempotency key.
    pub async fn call_with_key(
        &self,
        key: &str,
        tenant: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> HttpResponse {
        let mut request = self
            .http
            .request(method, format!("{}/api/webhooks/{path}", self.url))
            .bearer_auth(self.platform.token(tenant))
            .header("idempotency-key", key);
        if let Some(body) = body {
            request = request.json(body);
        }
        HttpResponse::to(request).await
    }

    pub async fn get(&self, tenant: &str, path: &str) -> HttpResponse {
        self.call(tenant, Method::GET, path, None).await
    }

    pub async fn post(&self, tenant: &str, path: &str, body: Value) -> HttpResponse {
        self.call(tenant, Method::POST, path, Some(&body)).await
    }

    pub async fn patch(&self, tenant: &str, id: &str, body: Value) -> Value {
        self.call(tenant, Method::PATCH, &format!("endpoints/{id}"), Some(&body)).await.with_status(200)
    }

    /// Posts without a body.
    pub async fn post_empty(&self, tenant: &str, path: &str) -> HttpResponse {
        self.call(tenant, Method::POST, path, None).await
    }

    /// Creates an endpoint at the receiver's `path` that subscribes to everything. Returns its id and its secret.
    pub async fn create_endpoint(&self, tenant: &str, path: &str) -> (String, String) {
        self.create_endpoint_with(tenant, path, json!({})).await
    }

    /// Creates an endpoint whose request also contains the fields of `overrides`.
    pub async fn create_endpoint_with(&self, tenant: &str, path: &str, overrides: Value) -> (String, String) {
        let mut body = json!({ "url": self.receiver.url(path), "event_types": ["*"] });
        for (name, value) in overrides.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let created = self.post(tenant, "endpoints", body).await.with_status(201);
        let text = |name: &str| created[name].as_str().expect("a string").to_owned();
        (text("endpoint_id"), text("secret"))
    }

    /// Publishes a sale for each of `numbers`. Returns the events' ids.
    pub async fn publish_sales(&self, tenant: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
        publish_sales(self.platform.db(), tenant, numbers).await
    }

    /// Returns the endpoint's deliveries, latest first.
    pub async fn deliveries(&self, tenant: &str, endpoint: &str) -> Vec<Value> {
        let page = self.get(tenant, &format!("endpoints/{endpoint}/deliveries?limit=200")).await.with_status(200);
        page["deliveries"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until `count` deliveries of the endpoint are in this state, and returns them.
    pub async fn wait_for_deliveries(&self, tenant: &str, endpoint: &str, state: &str, count: usize) -> Vec<Value> {
        eventually(&format!("{count} deliveries are {state}"), || async {
            let all = self.deliveries(tenant, endpoint).await;
            let matching: Vec<Value> = all.into_iter().filter(|delivery| delivery["state"] == state).collect();
            (matching.len() == count).then_some(matching)
        })
        .await
    }

    /// Waits until the endpoint is in this state, and returns it.
    pub async fn wait_for_endpoint_state(&self, tenant: &str, endpoint: &str, state: &str) -> Value {
        eventually(&format!("the endpoint is {state}"), || async {
            let endpoint = self.get(tenant, &format!("endpoints/{endpoint}")).await.with_status(200);
            (endpoint["state"] == state).then_some(endpoint)
        })
        .await
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

    /// Publishes a sweep tick, as the schedule would.
    pub async fn publish_sweep_tick(&self) {
        let platform = Scope { tenant: Some(TenantId::new("platform").unwrap()), ..Scope::platform("scheduler") };
        let mut tx = self.platform.db().begin(platform).await.expect("a transaction");
        let tick = json!({ "schedule": "webhooks-sweep", "scheduledFor": jiff::Timestamp::now() });
        let tick = NewMessage::new("webhooks.sweep.v1", "webhooks.ticks:sweep", tick);
        outbox::send(&mut tx, tick).await.expect("the tick is valid");
        tx.commit().await.expect("the commit succeeds");
    }

    /// Expires every lease.
    pub async fn expire_leases(&self) {
        self.execute(
            "UPDATE webhooks.delivery SET leased_until = now(), due_at = now() WHERE leased_until IS NOT NULL",
        )
        .await;
    }

    pub async fn metrics(&self) -> String {
        HttpResponse::to(self.http.get(format!("{}/metrics", self.url))).await.text
    }

    /// Counts the audit entries of this kind that `tenant` has.
    pub async fn count_audit_entries(&self, tenant: &str, event_type: &str) -> i64 {
        let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2";
        self.query(sql, &[&tenant, &event_type]).await
    }
}
