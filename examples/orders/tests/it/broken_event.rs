//! A command whose event breaks its contract: refused as bad input, and what it wrote before is undone.

use crate::support::{
    api::{Api, answer},
    bus::{Bus, on_buses},
    shop::row_counts,
};
use onceward::{
    Access, Command, Event, Exchange, Migration, Migrations, Problem, Response, Routes, Service, StatusCode, TenantId,
    Topology, outbox,
};
use onceward_testkit::TestPlatform;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A service whose request schema lets through what its event schema does not.
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
        .topology(Topology::new().exchange(Exchange::topic("gauges.events")))
        .routes(|| Routes::new().post("/api/readings", Access::authenticated(), take).request("reading.take.v1"))
}

#[derive(Serialize, Deserialize)]
struct ReadingTaken {
    celsius: i32,
}

impl Event for ReadingTaken {
    const TYPE: &'static str = "reading.taken.v1";

    fn topic(&self, tenant: &TenantId) -> String {
        format!("gauges.events:tenant.{tenant}.reading.taken")
    }
}

async fn take(command: Command<ReadingTaken>) -> Result<Response, Problem> {
    let (reading, mut command) = command.into_parts();
    let tenant = command.caller.tenant.to_string();
    let statement = "INSERT INTO gauges.reading (tenant_id, celsius) VALUES ($1, $2)";
    command.tx.execute(statement, &[&tenant, &reading.celsius]).await?;
    outbox::publish(&mut command.tx, &reading).await?;
    command.respond(StatusCode::CREATED, &reading).await
}

on_buses!(a_command_whose_event_breaks_its_schema_is_refused_and_undone);
async fn a_command_whose_event_breaks_its_schema_is_refused_and_undone(bus: Bus) {
    let mut platform = TestPlatform::on_bus(vec![service()], bus.url.as_deref()).await;
    let api = Api::new(&platform.serve_http().await);
    let owner = platform.database().owner().await;
    let before = row_counts(&owner).await;
    let token = platform.token("acme");
    let reading = |celsius: i32| {
        let request = api.request(Method::POST, "/api/readings").bearer_auth(&token);
        answer(request.header("idempotency-key", "k").json(&json!({"celsius": celsius})))
    };

    let refused = reading(-300).await.unwrap();
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("validation-failed")), "{}", refused.body);
    assert!(refused.body["detail"].as_str().unwrap().contains("reading.taken.v1"));
    assert_eq!(refused.body["errors"][0]["path"], "/celsius");
    assert_eq!(row_counts(&owner).await, before);
    let readings = owner.query_one("SELECT count(*) FROM gauges.reading", &[]).await.unwrap();
    assert_eq!(readings.get::<_, i64>(0), 0);

    // The refusal was not stored and is undone: the corrected command may use the same key at once.
    assert_eq!(reading(20).await.unwrap().status, 201);
}
