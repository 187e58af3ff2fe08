//! A command whose event violates its contract is rejected as bad input, and its writes are rolled back.

use crate::support::{
    api::ApiClient,
    bus::{Bus, on_buses},
    fixture::row_counts,
};
use onceward::{
    Access, Command, Event, Exchange, Migration, Migrations, Problem, Response, Routes, Service, StatusCode, TenantId,
    Topology, outbox,
};
use onceward_testkit::{HttpResponse, TestPlatform};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A service whose request schema accepts input that its event schema rejects.
fn service() -> Service {
    Service::new("gauges")
        .migrations(Migrations {
            schema: "gauges",
            steps: &[Migration {
                name: "0001_reading",
                sql: "CREATE TABLE gauges.reading (tenant_id text NOT NULL, celsius int NOT NULL);
                      SELECT onceward_meta.protect('gauges.reading');",
            }],
        })
        .schemas(&[
            r#"{"$id": "reading.take.v1", "type": "object", "required": ["celsius"]}"#,
            r#"{"$id": "reading.taken.v1", "type": "object", "properties": {"celsius": {"type": "integer", "minimum": -273}}}"#,
        ])
        .topology(Topology::new().exchange(Exchange::topic(ReadingTaken::EXCHANGE)))
        .publishes::<ReadingTaken>()
        .routes(|| Routes::new().post("/api/readings", Access::authenticated(), take_reading).request("reading.take.v1"))
}

#[derive(Serialize, Deserialize)]
struct ReadingTaken {
    celsius: i32,
}

impl Event for ReadingTaken {
    const TYPE: &'static str = "reading.taken.v1";
    const EXCHANGE: &'static str = "gauges.events";

    fn routing_key(&self, tenant: &TenantId) -> String {
        format!("tenant.{tenant}.reading.taken")
    }
}

async fn take_reading(command: Command<ReadingTaken>) -> Result<Response, Problem> {
    let (reading, mut command) = command.into_parts();
    let tenant = command.caller.tenant.to_string();
    let statement = "INSERT INTO gauges.reading (tenant_id, celsius) VALUES ($1, $2)";
    command.tx.execute(statement, &[&tenant, &reading.celsius]).await?;
    outbox::publish(&mut command.tx, &reading).await?;
    command.respond(StatusCode::CREATED, &reading).await
}

on_buses!(a_command_whose_event_violates_its_schema_is_rejected_and_rolled_back);
async fn a_command_whose_event_violates_its_schema_is_rejected_and_rolled_back(bus: Bus) {
    let mut platform = TestPlatform::on_bus(vec![service()], bus.url.as_deref()).await;
    let api = ApiClient::new(&platform.serve_http().await);
    let owner = platform.database().owner().await;
    let before = row_counts(&owner).await;
    let token = platform.token("acme");
    let reading = |celsius: i32| {
        let request = api.request(Method::POST, "/api/readings").bearer_auth(&token);
        HttpResponse::to(request.header("idempotency-key", "k").json(&json!({"celsius": celsius})))
    };

    let rejected = reading(-300).await;
    assert_eq!((rejected.status, &rejected.body["code"]), (422, &json!("validation-failed")), "{}", rejected.body);
    assert!(rejected.body["detail"].as_str().unwrap().contains("reading.taken.v1"));
    assert_eq!(rejected.body["errors"][0]["path"], "/celsius");
    assert_eq!(row_counts(&owner).await, before);
    let readings = owner.query_one("SELECT count(*) FROM gauges.reading", &[]).await.unwrap();
    assert_eq!(readings.get::<_, i64>(0), 0);

    // The rejection was rolled back and not stored: the corrected command may use the same key immediately.
    assert_eq!(reading(20).await.status, 201);
}
