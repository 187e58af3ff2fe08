//! The acceptance scenarios, as Gherkin, on each home bus.

use crate::support::{AcceptedLoan, ApiClient, LendingFixture};
use cucumber::{World as _, given, then, when, writer::Stats as _};
use onceward_testkit::{HttpResponse, eventually, left_out, rabbitmq_url};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fmt;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

const FEATURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/features");

/// The bus that scenarios run on. Scenarios of two buses do not run at the same time.
static BUS: Mutex<Option<String>> = Mutex::new(None);
static ONE_BUS_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scenarios_hold_on_postgres() {
    check_scenarios(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scenarios_hold_on_rabbitmq() {
    if !left_out("rabbitmq") {
        let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
        check_scenarios(Some(url)).await;
    }
}

async fn check_scenarios(bus: Option<String>) {
    let _turn = ONE_BUS_AT_A_TIME.lock().await;
    *BUS.lock() = bus;
    // Do not read the arguments of this process, which belong to the test harness.
    let summary =
        Scenario::cucumber().with_default_cli().fail_on_skipped().max_concurrent_scenarios(1).run(FEATURES).await;
    assert!(summary.passed_steps() > 0, "no scenario was found");
    assert!(!summary.execution_has_failed(), "see the steps above");
}

/// State shared by the steps of one scenario.
#[derive(cucumber::World)]
#[world(init = Self::new)]
struct Scenario {
    fixture: LendingFixture,
    tenant: String,
    user: String,
    request: (String, Value),
    response: Option<HttpResponse>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("tenant", &self.tenant).field("answer", &self.response).finish_non_exhaustive()
    }
}

impl Scenario {
    async fn new() -> Self {
        let bus = BUS.lock().clone();
        let fixture = LendingFixture::start_on(bus.as_deref()).await;
        warm_up(&fixture).await;
        Self {
            fixture,
            tenant: "acme".into(),
            user: "u1".into(),
            request: (String::new(), Value::Null),
            response: None,
        }
    }

    async fn valid_payload(&self) -> Value {
        let client = ApiClient::new(&self.fixture, &self.tenant, &self.user);
        client.product("home", json!({})).await;
        client.application("home", json!({})).await
    }

    async fn post(&mut self, key: &str, body: Value) {
        let client = ApiClient::new(&self.fixture, &self.tenant, &self.user);
        self.response = Some(client.post_as(key, "/api/loans", &body).await);
        self.request = (key.to_owned(), body);
    }

    fn response(&self) -> &HttpResponse {
        self.response.as_ref().expect("a request was sent")
    }

    async fn count(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> i64 {
        self.fixture.query_value(sql, params).await
    }

    async fn loan_records(&self) -> i64 {
        self.count("SELECT count(*) FROM lending.loan WHERE tenant_id = $1", &[&self.tenant]).await
    }
}

/// Sends the first message: in a platform that has just started it waits for connections and plans, and the objectives
/// are about later ones.
async fn warm_up(fixture: &LendingFixture) {
    let client = fixture.client("warm-up");
    client.product("home", json!({})).await;
    client.loan("home", json!({})).await;
    let sql = "SELECT count(*) FROM onceward.outbox_messages
               WHERE tenant_id = 'warm-up' AND event_type = 'loan.created.v1' AND published_at IS NOT NULL";
    eventually("the first event is published", || async {
        (fixture.query_value::<i64>(sql, &[]).await == 1).then_some(())
    })
    .await;
}

#[given(expr = "tenant {string} and user {string}")]
async fn who(scenario: &mut Scenario, tenant: String, user: String) {
    (scenario.tenant, scenario.user) = (tenant, user);
}

#[given(expr = "same request with Idempotency-Key {string}")]
async fn same_request(scenario: &mut Scenario, key: String) {
    valid_payload(scenario, key).await;
    assert_eq!(scenario.response().status, 202);
}

#[when(expr = "POST \\/api\\/loans with a valid payload and Idempotency-Key {string}")]
async fn valid_payload(scenario: &mut Scenario, key: String) {
    let body = scenario.valid_payload().await;
    scenario.post(&key, body).await;
}

#[when(expr = "POST \\/api\\/loans again")]
async fn again(scenario: &mut Scenario) {
    let (key, body) = scenario.request.clone();
    scenario.post(&key, body).await;
}

#[when(expr = "POST \\/api\\/loans with a principal of {string} and Idempotency-Key {string}")]
async fn wrong_principal(scenario: &mut Scenario, principal: String, key: String) {
    let mut body = scenario.valid_payload().await;
    body["principal_minor"] = json!(principal);
    scenario.post(&key, body).await;
}

#[when(expr = "POST \\/api\\/loans for a borrower that does not exist")]
async fn for_nobody(scenario: &mut Scenario) {
    let mut body = scenario.valid_payload().await;
    body["borrower_entity_id"] = json!(Uuid::now_v7());
    scenario.post("nobody", body).await;
}

#[then(expr = "response is {int}")]
async fn response(scenario: &mut Scenario, status: u16) {
    assert_eq!(scenario.response().status, status, "{:?}", scenario.response());
}

#[then(expr = "response is {int} with a correlationId")]
async fn response_with_correlation_id(scenario: &mut Scenario, status: u16) {
    let response = scenario.response();
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.body["status"], "processing");
    assert_eq!(response.body["correlationId"].as_str(), response.header("x-correlation-id"));
    assert_eq!(response.header("location"), Some(format!("/api/loans/{}/status", response.loan_id()).as_str()));
}

#[then(expr = "response is {int} and names the field {string}")]
async fn response_with_field(scenario: &mut Scenario, status: u16, field: String) {
    let response = scenario.response();
    assert_eq!((response.status, response.wrong_fields()), (status, vec![field.as_str()]), "{response:?}");
}

/// Measures from when the command was written to when the event was published, both by the database's clock.
#[then(expr = "within {int} seconds an event {string} is published for tenant {string}")]
async fn published(scenario: &mut Scenario, seconds: i64, event: String, tenant: String) {
    let sql = "SELECT extract(epoch FROM e.published_at - c.created_at)::float8
               FROM onceward.outbox_messages e
               JOIN onceward.outbox_messages c ON c.tenant_id = e.tenant_id AND c.correlation_id = e.correlation_id
               WHERE e.tenant_id = $1 AND e.event_type = $2 AND e.topic = $3 AND e.correlation_id = $4
                 AND c.event_type = 'loan.create.v1' AND e.published_at IS NOT NULL";
    let (event_type, topic) = (format!("{event}.v1"), format!("ls.events:tenant.{tenant}.{event}"));
    let correlation_id = scenario.response().body["correlationId"].as_str().expect("a correlation id").to_owned();
    let fixture = &scenario.fixture;
    let took: f64 = eventually("the event is published", || async {
        let rows =
            fixture.owner.query(sql, &[&tenant, &event_type, &topic, &correlation_id]).await.expect("the outbox");
        rows.first().map(|row| row.get(0))
    })
    .await;
    assert!(took <= seconds as f64, "{event} was published {took:.3} s after its command, and not within {seconds} s");
}

#[then(expr = "the loan record exists with status {string}")]
async fn loan_exists(scenario: &mut Scenario, status: String) {
    let sql = "SELECT count(*) FROM lending.loan WHERE tenant_id = $1 AND loan_id = $2 AND status = $3";
    let loan_id = scenario.response().loan_id();
    assert_eq!(scenario.count(sql, &[&scenario.tenant, &loan_id, &status]).await, 1);
}

#[then(expr = "an audit record exists with action {string}")]
async fn count_audit_entries(scenario: &mut Scenario, action: String) {
    let sql = "SELECT count(*) FROM audit.entry WHERE tenant_id = $1 AND event_type = $2 AND loan_id = $3
               AND correlation_id = $4 AND actor = $5";
    let correlation_id = scenario.response().body["correlationId"].as_str().expect("a correlation id").to_owned();
    let loan_id = scenario.response().loan_id().to_string();
    let found = scenario.count(sql, &[&scenario.tenant, &action, &loan_id, &correlation_id, &scenario.user]).await;
    assert_eq!(found, 1);
}

#[then(expr = "exactly one loan record exists")]
async fn one_loan(scenario: &mut Scenario) {
    let client = ApiClient::new(&scenario.fixture, &scenario.tenant, &scenario.user);
    assert_eq!(client.wait_until_settled(scenario.response().loan_id()).await["status"], "created");
    assert_eq!(scenario.loan_records().await, 1);
    let sql = "SELECT count(*) FROM onceward.outbox_messages WHERE tenant_id = $1 AND event_type = 'loan.create.v1'";
    assert_eq!(scenario.count(sql, &[&scenario.tenant]).await, 1, "it was requested once");
}

#[then(expr = "no loan record exists")]
async fn no_loan(scenario: &mut Scenario) {
    assert_eq!(scenario.loan_records().await, 0);
}

#[then(expr = "no message is published for tenant {string}")]
async fn no_message(scenario: &mut Scenario, tenant: String) {
    let sql = "SELECT count(*) FROM onceward.outbox_messages WHERE tenant_id = $1";
    assert_eq!(scenario.count(sql, &[&tenant]).await, 0);
}

#[then(expr = "the loan's status becomes {string} with the reason {string}")]
async fn wait_for_status(scenario: &mut Scenario, status: String, reason: String) {
    let client = ApiClient::new(&scenario.fixture, &scenario.tenant, &scenario.user);
    let found = client.wait_until_settled(scenario.response().loan_id()).await;
    assert_eq!(found["status"], status);
    assert!(found["reason"].as_str().is_some_and(|found| found.starts_with(&reason)), "{found}");
}
