//! Making loans: by a message or at once, once each.

use crate::support::Office;
use onceward_lending::Settings;
use serde_json::{Value, json};
use uuid::Uuid;

async fn switch_async(office: &Office, tenant: &str, enabled: bool) {
    let sql = "INSERT INTO lending.tenant_feature VALUES ($1, 'async_loan_create', $2)";
    office.owner.execute(sql, &[&tenant, &enabled]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_is_made_with_the_schedule_of_its_product() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let loan_id = desk.loan("home", json!({})).await;

    let loan = desk.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
    assert_eq!(loan["status"], "created");
    assert_eq!(
        (&loan["principal_minor"], &loan["version"], &loan["product_version"]),
        (&json!("10000"), &json!(1), &json!(1))
    );
    assert_eq!((&loan["first_due_date"], &loan["funded_on"]), (&json!("2024-02-01"), &Value::Null));
    assert_eq!(loan["balances"]["loan_principal_minor"], "0");

    let schedule = desk.get(&format!("/api/loans/{loan_id}/schedule")).await.with_status(200);
    let column = |name: &str| -> Vec<i64> {
        let rows = schedule["rows"].as_array().unwrap().iter();
        rows.map(|row| row[name].as_str().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(column("payment_minor"), [1701, 1701, 1701, 1701, 1701, 1700]);
    assert_eq!(column("interest_minor").iter().sum::<i64>(), 205);
    assert_eq!(column("principal_minor").iter().sum::<i64>(), 10_000);
    assert_eq!(schedule["rows"][5]["due_date"], "2024-07-01");

    let published = "SELECT payload FROM onceward.outbox_messages WHERE idempotency_key = $1";
    let event: Value = office.ask(published, &[&format!("evt:loan.created:{loan_id}")]).await;
    assert_eq!(event["loan"]["loan_id"], json!(loan_id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_tells_its_status_before_the_loan_is_there() {
    let mut office = Office::without_consumers(Settings::default(), None).await;
    let (loan_id, application) = {
        let desk = office.desk("acme");
        desk.product("home", json!({})).await;
        let application = desk.application("home", json!({})).await;
        let accepted = desk.post_as("k", "/api/loans", &application).await;
        let loan_id = accepted.loan_id();
        let status = desk.get(accepted.header("location").unwrap()).await.with_status(200);
        assert_eq!((&status["status"], &status["state"]), (&json!("processing"), &json!("processing")));
        assert_eq!(status["correlationId"], accepted.body["correlationId"]);
        desk.get(&format!("/api/loans/{loan_id}")).await.with_status(404);
        // What is asked for in between is done once the loan is there.
        desk.patch(&format!("/api/loans/{loan_id}"), &json!({"action": "activate", "funded_on": "2024-01-01"}))
            .await
            .with_status(202);
        (loan_id, application)
    };
    office.platform.run_consumers();
    let desk = office.desk("acme");
    let status = desk.settled(loan_id).await;
    assert_eq!((&status["status"], &status["state"]), (&json!("active"), &json!("done")), "{status}");
    let again = desk.post_as("k", "/api/loans", &application).await;
    assert_eq!((again.loan_id(), again.header("idempotency-replayed")), (loan_id, Some("true")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_without_a_key_is_done_once() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let application = desk.application("home", json!({})).await;
    let first = desk.post_without_key("/api/loans", &application).await;
    let second = desk.post_without_key("/api/loans", &application).await;
    assert_eq!(second.loan_id(), first.loan_id());
    assert_eq!(second.body["correlationId"], first.body["correlationId"]);
    assert_eq!((first.header("idempotency-replayed"), second.header("idempotency-replayed")), (None, Some("true")));
    assert_eq!(second.header("location"), first.header("location"));

    let key: String = office
        .ask("SELECT idempotency_key FROM onceward.outbox_messages WHERE event_type = 'loan.create.v1'", &[])
        .await;
    assert!(key.starts_with("loan-create:tester:"), "{key}");
    let mut other = application.clone();
    other["principal_minor"] = json!("20000");
    let third = desk.post_without_key("/api/loans", &other).await;
    assert_ne!(third.loan_id(), first.loan_id());
    desk.settled(first.loan_id()).await;
    desk.settled(third.loan_id()).await;
    assert_eq!(office.count("lending.loan").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_was_refused_can_be_given_again() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let borrower = Uuid::now_v7();
    let application = desk.application("home", json!({"borrower_entity_id": borrower})).await;
    let refused = desk.post_without_key("/api/loans", &application).await.loan_id();
    let status = desk.settled(refused).await;
    assert_eq!((&status["status"], &status["state"]), (&json!("refused"), &json!("refused")));
    assert!(status["reason"].as_str().unwrap().contains(&borrower.to_string()), "{status}");
    assert_eq!(office.audited("acme", "loan_command_refused").await, 1);
    assert_eq!(office.count("onceward.dead_letters").await, 0, "a refusal is an end, not a failure");

    let sql = "INSERT INTO lending.borrower_entities (tenant_id, borrower_entity_id, kind, display_name)
               VALUES ('acme', $1, 'person', 'Late Comer')";
    office.owner.execute(sql, &[&borrower]).await.unwrap();
    let made = desk.post_without_key("/api/loans", &application).await.loan_id();
    assert_ne!(made, refused);
    assert_eq!(desk.settled(made).await["status"], "created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_chooses_to_have_its_loans_at_once() {
    let office = Office::open().await;
    switch_async(&office, "acme", false).await;
    for (tenant, status) in [("acme", 201), ("globex", 202)] {
        let desk = office.desk(tenant);
        desk.product("home", json!({})).await;
        let application = desk.application("home", json!({})).await;
        let answer = desk.post_without_key("/api/loans", &application).await;
        let again = desk.post_without_key("/api/loans", &application).await;
        assert_eq!((answer.status, again.status), (status, status), "{tenant}: {} {}", answer.body, again.body);
    }
    let sql = "SELECT loan_id FROM lending.loan WHERE tenant_id = 'acme'";
    let loan_id: Uuid = office.ask(sql, &[]).await;
    let desk = office.desk("acme");
    assert_eq!(desk.settled(loan_id).await["status"], "created");
    assert_eq!(office.audited("acme", "loan_created").await, 1);
    let commands =
        "SELECT count(*) FROM onceward.outbox_messages WHERE tenant_id = 'acme' AND event_type = 'loan.create.v1'";
    assert_eq!(office.ask::<i64>(commands, &[]).await, 0);

    let nobody = desk.application("home", json!({"borrower_entity_id": Uuid::now_v7()})).await;
    let refused = desk.post("/api/loans", &nobody).await;
    assert_eq!((refused.status, refused.wrong_fields()), (422, vec!["/borrower_entity_id"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_settings_choose_for_tenants_that_do_not() {
    let settings = Settings { async_loan_create: false, ..Settings::default() };
    let office = Office::without_consumers(settings, None).await;
    switch_async(&office, "globex", true).await;
    for (tenant, status) in [("acme", 201), ("globex", 202)] {
        let desk = office.desk(tenant);
        desk.product("home", json!({})).await;
        let application = desk.application("home", json!({})).await;
        let answer = desk.post("/api/loans", &application).await;
        assert_eq!(answer.status, status, "{tenant}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_keeps_the_version_of_its_product() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let first = desk.loan("home", json!({})).await;
    desk.product("home", json!({"annual_rate": "0"})).await;
    let second = desk.loan("home", json!({})).await;
    let old = desk.loan("home", json!({"product_version": 1})).await;
    for (loan_id, version, rate) in [(first, 1, "0.07"), (second, 2, "0"), (old, 1, "0.07")] {
        let loan = desk.get(&format!("/api/loans/{loan_id}")).await.with_status(200);
        assert_eq!((&loan["product_version"], &loan["policy"]["annual_rate"]), (&json!(version), &json!(rate)));
    }
    let latest = desk.get("/api/products/home").await.with_status(200);
    let before = desk.get("/api/products/home?version=1").await.with_status(200);
    assert_eq!((&latest["version"], &before["policy"]["annual_rate"]), (&json!(2), &json!("0.07")));
    desk.get("/api/products/home?version=3").await.with_status(404);
    assert_eq!(office.audited("acme", "product_created").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chosen_id_is_used_once() {
    let mut office = Office::without_consumers(Settings::default(), None).await;
    let loan_id = Uuid::now_v7();
    {
        let desk = office.desk("acme");
        desk.product("home", json!({})).await;
        for principal in ["10000", "20000"] {
            // Nothing was made yet, so both are accepted.
            let body = desk.application("home", json!({"loan_id": loan_id, "principal_minor": principal})).await;
            assert_eq!(desk.post("/api/loans", &body).await.loan_id(), loan_id);
        }
    }
    office.platform.run_consumers();
    let desk = office.desk("acme");
    let status = desk.settled(loan_id).await;
    assert_eq!((&status["status"], &status["state"]), (&json!("created"), &json!("refused")));
    assert_eq!(desk.get(&format!("/api/loans/{loan_id}")).await.body["principal_minor"], "10000");

    let body = desk.application("home", json!({"loan_id": loan_id})).await;
    let refused = desk.post("/api/loans", &body).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("loan-exists")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loans_are_listed_by_page_and_by_what_they_are() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({})).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(desk.loan("home", json!({})).await);
    }
    made.sort_unstable();
    let active = desk.active_loan("home", json!({})).await;
    let ids = |page: &Value| -> Vec<Uuid> {
        page["loans"]
            .as_array()
            .unwrap()
            .iter()
            .map(|loan| loan["loan_id"].as_str().unwrap().parse().unwrap())
            .collect()
    };
    let first = desk.get("/api/loans?status=created&limit=2").await.with_status(200);
    assert_eq!(ids(&first), made[..2]);
    let next = first["next"].as_str().unwrap();
    let second = desk.get(&format!("/api/loans?status=created&limit=2&after={next}")).await.with_status(200);
    assert_eq!((ids(&second), &second["next"]), (made[2..].to_vec(), &Value::Null));
    let borrower = desk.get(&format!("/api/loans/{active}")).await.body["borrower_entity_id"].clone();
    let borrower = borrower.as_str().unwrap();
    let theirs = desk.get(&format!("/api/loans?borrower_entity_id={borrower}")).await.with_status(200);
    assert_eq!(ids(&theirs), [active]);
    desk.get("/api/loans?status=lost").await.with_status(400);
}
