//! Creating loans: asynchronously or at once, once each.

use crate::support::{AcceptedLoan, LendingFixture};
use onceward_lending::Settings;
use serde_json::{Value, json};
use uuid::Uuid;

async fn switch_async(fixture: &LendingFixture, tenant: &str, enabled: bool) {
    let sql = "INSERT INTO lending.tenant_feature VALUES ($1, 'async_loan_create', $2)";
    fixture.owner.execute(sql, &[&tenant, &enabled]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_is_created_with_the_schedule_of_its_product() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.loan("home", json!({})).await;

    let loan = client.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    assert_eq!(loan["status"], "created");
    assert_eq!(
        (&loan["principal_minor"], &loan["version"], &loan["product_version"]),
        (&json!("10000"), &json!(1), &json!(1))
    );
    assert_eq!((&loan["first_due_date"], &loan["funded_on"]), (&json!("2024-02-01"), &Value::Null));
    assert_eq!(loan["balances"]["loan_principal_minor"], "0");

    let schedule = client.get(&format!("/api/loans/{loan_id}/schedule")).await.with_status(200);
    let column = |name: &str| -> Vec<i64> {
        let rows = schedule["rows"].as_array().unwrap().iter();
        rows.map(|row| row[name].as_str().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(column("payment_minor"), [1701, 1701, 1701, 1701, 1701, 1700]);
    assert_eq!(column("interest_minor").iter().sum::<i64>(), 205);
    assert_eq!(column("principal_minor").iter().sum::<i64>(), 10_000);
    assert_eq!(schedule["rows"][5]["due_date"], "2024-07-01");

    let published = "SELECT payload FROM onceward.outbox_messages WHERE idempotency_key = $1";
    let event: Value = fixture.query_value(published, &[&format!("evt:loan.created:{loan_id}")]).await;
    assert_eq!(event["loan"]["loan_id"], json!(loan_id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_has_a_status_before_its_loan_exists() {
    let mut fixture = LendingFixture::without_consumers(Settings::default(), None).await;
    let (loan_id, application) = {
        let client = fixture.client("acme");
        client.product("home", json!({})).await;
        let application = client.application("home", json!({})).await;
        let accepted = client.post_as("k", "/api/loans", &application).await;
        let loan_id = accepted.loan_id();
        let status = client.get(accepted.header("location").unwrap()).await.with_status(200);
        assert_eq!((&status["status"], &status["state"]), (&json!("processing"), &json!("processing")));
        assert_eq!(status["correlationId"], accepted.body["correlationId"]);
        client.get(&format!("/api/loans/{loan_id}")).await.with_status(404);
        // A change requested in between is applied once the loan exists.
        client
            .patch(&format!("/api/loans/{loan_id}"), &json!({"action": "activate", "funded_on": "2024-01-01"}))
            .await
            .with_status(202);
        (loan_id, application)
    };
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    // The request may be settled before the change, which waits for the loan.
    onceward_testkit::eventually("the change is applied", || async {
        let status = client.get(&format!("/api/loans/{loan_id}/status")).await.body;
        (status["status"] == "active" && status["state"] == "done").then_some(())
    })
    .await;
    let again = client.post_as("k", "/api/loans", &application).await;
    assert_eq!((again.loan_id(), again.header("idempotency-replayed")), (loan_id, Some("true")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_not_refused_if_the_loan_is_created_while_it_looks_for_it() {
    let mut fixture = LendingFixture::without_consumers(Settings::default(), None).await;
    let loan_id = {
        let client = fixture.client("acme");
        client.product("home", json!({})).await;
        let application = client.application("home", json!({})).await;
        let loan_id = client.post_as("k", "/api/loans", &application).await.loan_id();
        let path = format!("/api/loans/{loan_id}");
        client.patch(&path, &json!({"action": "activate", "funded_on": "2024-01-01"})).await.with_status(202);
        loan_id
    };
    // What the change reads if the creation commits between its two queries: no loan, but a creation that is done. The
    // lock keeps the loan from being inserted and lets everybody read.
    let done = "UPDATE lending.command_status SET state = 'done' WHERE kind = 'loan.create.v1'";
    fixture.owner.batch_execute(&format!("{done}; BEGIN; LOCK TABLE lending.loan IN SHARE MODE")).await.unwrap();
    fixture.platform.run_consumers();
    onceward_testkit::eventually("the change waits for the loan", || async {
        let waits = "SELECT FROM onceward.deferred WHERE message->>'event_type' LIKE 'loan.update%'";
        let settled = "SELECT FROM lending.command_status WHERE kind = 'loan.update.v1' AND state <> 'processing'";
        assert!(
            fixture.owner.query_opt(settled, &[]).await.unwrap().is_none(),
            "the change was settled without a loan"
        );
        fixture.owner.query_opt(waits, &[]).await.unwrap()
    })
    .await;
    fixture.owner.batch_execute("COMMIT").await.unwrap();
    let client = fixture.client("acme");
    onceward_testkit::eventually("the change is applied", || async {
        let status = client.get(&format!("/api/loans/{loan_id}/status")).await.body;
        (status["status"] == "active" && status["state"] == "done").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_without_a_key_is_executed_once() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let application = client.application("home", json!({})).await;
    let first = client.post_without_key("/api/loans", &application).await;
    let second = client.post_without_key("/api/loans", &application).await;
    assert_eq!(second.loan_id(), first.loan_id());
    assert_eq!(second.body["correlationId"], first.body["correlationId"]);
    assert_eq!((first.header("idempotency-replayed"), second.header("idempotency-replayed")), (None, Some("true")));
    assert_eq!(second.header("location"), first.header("location"));

    let key: String = fixture
        .query_value("SELECT idempotency_key FROM onceward.outbox_messages WHERE event_type = 'loan.create.v1'", &[])
        .await;
    assert!(key.starts_with("loan-create:tester:"), "{key}");
    let mut other = application.clone();
    other["principal_minor"] = json!("20000");
    let third = client.post_without_key("/api/loans", &other).await;
    assert_ne!(third.loan_id(), first.loan_id());
    client.wait_until_settled(first.loan_id()).await;
    client.wait_until_settled(third.loan_id()).await;
    assert_eq!(fixture.count("lending.loan").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_can_be_repeated() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let borrower = Uuid::now_v7();
    let application = client.application("home", json!({"borrower_entity_id": borrower})).await;
    let refused = client.post_without_key("/api/loans", &application).await.loan_id();
    let status = client.wait_until_settled(refused).await;
    assert_eq!((&status["status"], &status["state"]), (&json!("refused"), &json!("refused")));
    assert!(status["reason"].as_str().unwrap().contains(&borrower.to_string()), "{status}");
    assert_eq!(fixture.count_audit_entries("acme", "loan_command_refused").await, 1);
    assert_eq!(fixture.count("onceward.dead_letters").await, 0, "a refusal is a final result, not a failure");

    let sql = "INSERT INTO lending.borrower_entities (tenant_id, borrower_entity_id, kind, display_name)
               VALUES ('acme', $1, 'person', 'Late Comer')";
    fixture.owner.execute(sql, &[&borrower]).await.unwrap();
    let made = client.post_without_key("/api/loans", &application).await.loan_id();
    assert_ne!(made, refused);
    assert_eq!(client.wait_until_settled(made).await["status"], "created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_can_choose_synchronous_loan_creation() {
    let fixture = LendingFixture::start().await;
    switch_async(&fixture, "acme", false).await;
    for (tenant, status) in [("acme", 201), ("globex", 202)] {
        let client = fixture.client(tenant);
        client.product("home", json!({})).await;
        let application = client.application("home", json!({})).await;
        let response = client.post_without_key("/api/loans", &application).await;
        let again = client.post_without_key("/api/loans", &application).await;
        assert_eq!((response.status, again.status), (status, status), "{tenant}: {} {}", response.body, again.body);
    }
    let sql = "SELECT loan_id FROM lending.loan WHERE tenant_id = 'acme'";
    let loan_id: Uuid = fixture.query_value(sql, &[]).await;
    let client = fixture.client("acme");
    assert_eq!(client.wait_until_settled(loan_id).await["status"], "created");
    assert_eq!(fixture.count_audit_entries("acme", "loan_created").await, 1);
    let commands =
        "SELECT count(*) FROM onceward.outbox_messages WHERE tenant_id = 'acme' AND event_type = 'loan.create.v1'";
    assert_eq!(fixture.query_value::<i64>(commands, &[]).await, 0);

    let nobody = client.application("home", json!({"borrower_entity_id": Uuid::now_v7()})).await;
    let refused = client.post("/api/loans", &nobody).await;
    assert_eq!((refused.status, refused.wrong_fields()), (422, vec!["/borrower_entity_id"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_settings_decide_for_tenants_without_a_choice() {
    let settings = Settings { async_loan_create: false, ..Settings::default() };
    let fixture = LendingFixture::without_consumers(settings, None).await;
    switch_async(&fixture, "globex", true).await;
    for (tenant, status) in [("acme", 201), ("globex", 202)] {
        let client = fixture.client(tenant);
        client.product("home", json!({})).await;
        let application = client.application("home", json!({})).await;
        let response = client.post("/api/loans", &application).await;
        assert_eq!(response.status, status, "{tenant}: {}", response.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_keeps_the_version_of_its_product() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let first = client.loan("home", json!({})).await;
    client.product("home", json!({"annual_rate": "0"})).await;
    let second = client.loan("home", json!({})).await;
    let old = client.loan("home", json!({"product_version": 1})).await;
    for (loan_id, version, rate) in [(first, 1, "0.07"), (second, 2, "0"), (old, 1, "0.07")] {
        let loan = client.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
        assert_eq!((&loan["product_version"], &loan["policy"]["annual_rate"]), (&json!(version), &json!(rate)));
    }
    let latest = client.get("/api/products/home").await.with_status(200);
    let before = client.get("/api/products/home?version=1").await.with_status(200);
    assert_eq!((&latest["version"], &before["policy"]["annual_rate"]), (&json!(2), &json!("0.07")));
    client.get("/api/products/home?version=3").await.with_status(404);
    assert_eq!(fixture.count_audit_entries("acme", "product_created").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chosen_id_is_used_once() {
    let mut fixture = LendingFixture::without_consumers(Settings::default(), None).await;
    let loan_id = Uuid::now_v7();
    {
        let client = fixture.client("acme");
        client.product("home", json!({})).await;
        for principal in ["10000", "20000"] {
            // Neither loan exists yet, so both requests are accepted.
            let body = client.application("home", json!({"loan_id": loan_id, "principal_minor": principal})).await;
            assert_eq!(client.post("/api/loans", &body).await.loan_id(), loan_id);
        }
    }
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let status = client.wait_until_settled(loan_id).await;
    assert_eq!((&status["status"], &status["state"]), (&json!("created"), &json!("refused")));
    assert_eq!(client.get(&format!("/api/loans/{loan_id}")).await.body["principal_minor"], "10000");

    let body = client.application("home", json!({"loan_id": loan_id})).await;
    let refused = client.post("/api/loans", &body).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-exists")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loans_are_listed_by_page_and_filter() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(client.loan("home", json!({})).await);
    }
    made.sort_unstable();
    let active = client.active_loan("home", json!({})).await;
    let ids = |page: &Value| -> Vec<Uuid> {
        page["loans"]
            .as_array()
            .unwrap()
            .iter()
            .map(|loan| loan["loan_id"].as_str().unwrap().parse().unwrap())
            .collect()
    };
    let first = client.get("/api/loans?status=created&limit=2").await.with_status(200);
    assert_eq!(ids(&first), made[..2]);
    let next = first["next"].as_str().unwrap();
    let second = client.get(&format!("/api/loans?status=created&limit=2&after={next}")).await.with_status(200);
    assert_eq!((ids(&second), &second["next"]), (made[2..].to_vec(), &Value::Null));
    let borrower = client.get(&format!("/api/loans/{active}")).await.body["borrower_entity_id"].clone();
    let borrower = borrower.as_str().unwrap();
    let theirs = client.get(&format!("/api/loans?borrower_entity_id={borrower}")).await.with_status(200);
    assert_eq!(ids(&theirs), [active]);
    client.get("/api/loans?status=lost").await.with_status(400);
}
