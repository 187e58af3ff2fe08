//! The platform with a shop and webhooks, reachable over HTTP.

use super::{Receiver, SOURCE, sell, shop};
use onceward::{NewMessage, Platform, Scope, TenantId, outbox};
use onceward_testkit::{TestPlatform, eventually};
use onceward_webhooks::{Settings, service};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_postgres::{Client, types::ToSql};
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

pub const KEY: &str = "the-key-of-the-deployment-in-these-tests";

/// Receivers are on this machine, and retries come soon.
pub fn settings() -> Settings {
    Settings {
        secret_key: KEY.to_owned().try_into().expect("a key"),
        allow_http: true,
        allowed_networks: "127.0.0.1/32".parse().expect("a network"),
        retry_schedule: "0ms 20ms 20ms".parse().expect("waits"),
        poll_ms: 20,
        ..Settings::default()
    }
}

pub struct World {
    pub platform: TestPlatform,
    pub receiver: Receiver,
    /// Sees every tenant.
    pub owner: Client,
    http: reqwest::Client,
    url: String,
}

/// Status and body of an answer.
#[derive(Debug)]
pub struct Answer(pub u16, pub Value);

impl Answer {
    #[track_caller]
    pub fn with(self, status: u16) -> Value {
        assert_eq!(self.0, status, "{}", self.1);
        self.1
    }
}

impl World {
    /// With consumers and dispatcher running.
    pub async fn open(settings: Settings) -> Self {
        let mut world = Self::idle(settings, None).await;
        world.platform.run_consumers();
        world
    }

    /// Serves requests; nothing is fanned out or sent yet.
    pub async fn idle(settings: Settings, bus: Option<&str>) -> Self {
        let mut platform = TestPlatform::on_bus(vec![shop(), service(settings, vec![SOURCE])], bus).await;
        platform.run_relay();
        let url = platform.serve_http().await;
        let owner = platform.database().owner().await;
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build().expect("a client can be built");
        Self { platform, receiver: Receiver::start().await, owner, http, url }
    }

    /// The same on the same database, after everybody was stopped and begins again with other settings.
    pub async fn restarted(self, settings: Settings) -> Self {
        let (finished, database) = self.platform.stop().await;
        assert!(finished, "nothing was left in hand");
        let platform = Platform::assemble(vec![shop(), service(settings, vec![SOURCE])]).expect("services that fit");
        let mut platform = TestPlatform::on(database, platform);
        platform.run_consumers();
        Self { url: platform.serve_http().await, platform, ..self }
    }

    pub async fn call(&self, tenant: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        self.call_by(&Uuid::now_v7().to_string(), tenant, method, path, body).await
    }

    /// By an idempotency key.
    pub async fn call_by(&self, key: &str, tenant: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self
            .http
            .request(method, format!("{}/api/webhooks/{path}", self.url))
            .bearer_auth(self.platform.token(tenant))
            .header("idempotency-key", key);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.expect("the API answers");
        let status = response.status().as_u16();
        Answer(status, response.json().await.unwrap_or(Value::Null))
    }

    pub async fn get(&self, tenant: &str, path: &str) -> Answer {
        self.call(tenant, Method::GET, path, None).await
    }

    pub async fn post(&self, tenant: &str, path: &str, body: Value) -> Answer {
        self.call(tenant, Method::POST, path, Some(&body)).await
    }

    pub async fn patch(&self, tenant: &str, id: &str, body: Value) -> Value {
        self.call(tenant, Method::PATCH, &format!("endpoints/{id}"), Some(&body)).await.with(200)
    }

    /// A command without a body.
    pub async fn tell(&self, tenant: &str, path: &str) -> Answer {
        self.call(tenant, Method::POST, path, None).await
    }

    /// An endpoint at the receiver's `path` that wants everything. Gives its id and its secret.
    pub async fn endpoint(&self, tenant: &str, path: &str) -> (String, String) {
        self.endpoint_with(tenant, path, json!({})).await
    }

    /// The same with what `differs`.
    pub async fn endpoint_with(&self, tenant: &str, path: &str, differs: Value) -> (String, String) {
        let mut body = json!({ "url": self.receiver.url(path), "event_types": ["*"] });
        for (name, value) in differs.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let made = self.post(tenant, "endpoints", body).await.with(201);
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        (text("endpoint_id"), text("secret"))
    }

    pub async fn sell(&self, tenant: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
        sell(self.platform.db(), tenant, numbers).await
    }

    /// The endpoint's deliveries, the latest first.
    pub async fn deliveries(&self, tenant: &str, endpoint: &str) -> Vec<Value> {
        let page = self.get(tenant, &format!("endpoints/{endpoint}/deliveries?limit=200")).await.with(200);
        page["deliveries"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until `count` deliveries of the endpoint are in this state, and gives them.
    pub async fn settled(&self, tenant: &str, endpoint: &str, state: &str, count: usize) -> Vec<Value> {
        eventually(&format!("{count} deliveries are {state}"), || async {
            let all = self.deliveries(tenant, endpoint).await;
            let found: Vec<Value> = all.into_iter().filter(|delivery| delivery["state"] == state).collect();
            (found.len() == count).then_some(found)
        })
        .await
    }

    /// Waits until the endpoint is in this state.
    pub async fn endpoint_is(&self, tenant: &str, endpoint: &str, state: &str) -> Value {
        eventually(&format!("the endpoint is {state}"), || async {
            let endpoint = self.get(tenant, &format!("endpoints/{endpoint}")).await.with(200);
            (endpoint["state"] == state).then_some(endpoint)
        })
        .await
    }

    /// The first column of the first row, as the owner sees it.
    pub async fn ask<T>(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> T
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        self.owner.query_one(sql, params).await.expect("a query that gives a row").get(0)
    }

    pub async fn run(&self, sql: &str) {
        self.owner.batch_execute(sql).await.expect("a statement that works");
    }

    /// As if the time of the next sweep had come.
    pub async fn sweep(&self) {
        let platform = Scope { tenant: Some(TenantId::new("platform").unwrap()), ..Scope::platform("scheduler") };
        let mut tx = self.platform.db().begin(platform).await.expect("a transaction");
        let tick = json!({ "schedule": "webhooks-sweep", "scheduledFor": jiff::Timestamp::now() });
        let tick = NewMessage::new("webhooks.sweep.v1", "webhooks.ticks:sweep", tick);
        outbox::send(&mut tx, tick).await.expect("a tick");
        tx.commit().await.expect("the commit works");
    }

    /// As if the time of every lease had passed.
    pub async fn leases_run_out(&self) {
        self.run("UPDATE webhooks.delivery SET leased_until = now(), due_at = now() WHERE leased_until IS NOT NULL")
            .await;
    }

    pub async fn metrics(&self) -> String {
        let response = self.http.get(format!("{}/metrics", self.url)).send().await.expect("an answer");
        response.text().await.expect("a text")
    }

    /// How many audit entries of this kind `tenant` has.
    pub async fn audited(&self, tenant: &str, event_type: &str) -> i64 {
        let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2";
        self.ask(sql, &[&tenant, &event_type]).await
    }
}
