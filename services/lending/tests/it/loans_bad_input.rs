//! Bad input: each kind is a clear problem that names its field, and nothing is written.

use crate::support::{ApiClient, LendingFixture};
use onceward_testkit::HttpResponse;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

const WRITTEN: &[&str] = &[
    "lending.borrower_entities",
    "lending.product_policy",
    "lending.loan",
    "lending.instalment",
    "lending.command_status",
    "ledger.ledger_event",
    "audit.entry",
    "onceward.message_log",
    "onceward_web.idempotency_key",
];

async fn row_counts(fixture: &LendingFixture) -> BTreeMap<&'static str, i64> {
    let mut counts = BTreeMap::new();
    for table in WRITTEN {
        counts.insert(*table, fixture.count(table).await);
    }
    counts
}

/// Sends `base` with one change per case, and checks that exactly the expected fields are reported.
async fn check_fields(client: &ApiClient<'_>, path: &str, base: &Value, cases: Vec<(Value, Vec<&str>)>) {
    let before = row_counts(client.fixture).await;
    for (differs, fields) in cases {
        let mut body = base.clone();
        for (name, value) in differs.as_object().unwrap() {
            match value {
                Value::Null => drop(body.as_object_mut().unwrap().remove(name)),
                value => body[name] = value.clone(),
            }
        }
        let refused = client.post(path, &body).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (422, &json!("validation-failed")),
            "{differs}: {}",
            refused.body
        );
        assert_eq!(refused.wrong_fields(), fields, "{differs}: {}", refused.body);
    }
    assert_eq!(row_counts(client.fixture).await, before, "a refused request writes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_loan_is_rejected_before_anything_is_queued() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    client.product("yen", json!({})).await;
    // A product that is older than the rule for new ones.
    let yen = r#"UPDATE lending.product_policy SET policy = policy || '{"currency": "JPY"}' WHERE code = 'yen'"#;
    fixture.owner.execute(yen, &[]).await.expect("the product changes");
    let base = client.application("home", json!({})).await;
    let cases = vec![
        (json!({"principal_minor": 10000}), vec!["/principal_minor"]),
        (json!({"principal_minor": "100.00"}), vec!["/principal_minor"]),
        (json!({"principal_minor": "1e4"}), vec!["/principal_minor"]),
        (json!({"principal_minor": "-5"}), vec!["/principal_minor"]),
        (json!({"principal_minor": "0"}), vec!["/principal_minor"]),
        (json!({"principal_minor": "99999999999999999999"}), vec!["/principal_minor"]),
        (json!({"principal_minor": null}), vec!["/principal_minor"]),
        (json!({"currency": "usd"}), vec!["/currency"]),
        (json!({"currency": "EUR"}), vec!["/currency"]),
        (json!({"product_code": "yen"}), vec!["/currency"]),
        (json!({"product_code": "yen", "currency": "JPY"}), vec!["/currency"]),
        (json!({"product_code": "none"}), vec!["/product_code"]),
        (json!({"product_version": 7}), vec!["/product_version"]),
        (json!({"product_version": "1"}), vec!["/product_version"]),
        (json!({"borrower_entity_id": "me"}), vec!["/borrower_entity_id"]),
        (json!({"start_date": "2024-02-30"}), vec!["/start_date"]),
        (json!({"start_date": "1066-10-14"}), vec!["/start_date"]),
        (json!({"first_due_date": "2024-01-01"}), vec!["/first_due_date"]),
        (json!({"first_due_date": "2025-02-01"}), vec!["/first_due_date"]),
        (json!({"loan_id": "7"}), vec!["/loan_id"]),
        (json!({"loan_id": "00000000-0000-0000-0000-000000000000"}), vec!["/loan_id"]),
        (json!({"rate": "0.07"}), vec!["/rate"]),
        (json!({"currency": "usd", "principal_minor": "x"}), vec!["/currency", "/principal_minor"]),
    ];
    check_fields(&client, "/api/loans", &base, cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_product_is_rejected() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let base = json!({
        "code": "home", "currency": "USD", "annual_rate": "0.07", "day_count": "30/360", "term_months": 6,
    });
    let cases = vec![
        (json!({"code": "my home"}), vec!["/code"]),
        (json!({"annual_rate": 0.07}), vec!["/annual_rate"]),
        (json!({"annual_rate": "7.5"}), vec!["/annual_rate"]),
        (json!({"annual_rate": "-0.01"}), vec!["/annual_rate"]),
        (json!({"day_count": "31/365"}), vec!["/day_count"]),
        (json!({"term_months": 0}), vec!["/term_months"]),
        (json!({"term_months": 6.5}), vec!["/term_months"]),
        (json!({"term_months": "6"}), vec!["/term_months"]),
        (json!({"term_months": 601}), vec!["/term_months"]),
        (json!({"rounding": {"unit_minor": "0", "mode": "half_up"}}), vec!["/rounding/unit_minor"]),
        (
            json!({"waterfall": ["principal", "principal", "escrow", "fees_due", "interest_current"]}),
            vec!["/waterfall"],
        ),
        (json!({"waterfall": ["future", "principal", "escrow", "fees_due", "interest_current"]}), vec!["/waterfall"]),
        (json!({"late_fee": {"grace_days": 400, "charge": {"kind": "none"}}}), vec!["/late_fee/grace_days"]),
        (
            json!({"late_fee": {"grace_days": 1, "charge": {"kind": "percent", "of_instalment": "0"}}}),
            vec!["/late_fee/charge"],
        ),
        (json!({"escrow": {"monthly_minor": "-1"}}), vec!["/escrow/monthly_minor"]),
    ];
    check_fields(&client, "/api/products", &base, cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_borrower_without_a_name_or_with_a_used_reference_is_rejected() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let base = json!({"kind": "person", "display_name": "Ada", "external_ref": "crm-1"});
    let cases = vec![
        (json!({"display_name": ""}), vec!["/display_name"]),
        (json!({"display_name": null}), vec!["/display_name"]),
        (json!({"kind": "robot"}), vec!["/kind"]),
        (json!({"email": "nobody"}), vec!["/email"]),
    ];
    check_fields(&client, "/api/borrowers", &base, cases).await;

    let made = client.post("/api/borrowers", &base).await.with_status(201);
    let id = made["borrower_entity_id"].as_str().unwrap();
    assert_eq!(client.get(&format!("/api/borrowers/{id}")).await.with_status(200), made);
    let taken = client.post("/api/borrowers", &base).await;
    assert_eq!((taken.status, &taken.body["code"]), (409, &json!("borrower-exists")));
    let trail: String =
        fixture.query_value("SELECT document FROM audit.entry WHERE event_type = 'borrower_created'", &[]).await;
    assert!(!trail.contains("Ada"), "names are not audited: {trail}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_change_is_rejected() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let loan_id = client.loan("home", json!({})).await;
    let before = row_counts(&fixture).await;
    let cases = [
        json!({}),
        json!({"action": "explode"}),
        json!({"action": "change_status"}),
        json!({"action": "change_status", "status": "lost"}),
        json!({"action": "modify"}),
        json!({"action": "close", "funded_on": "2024-01-01"}),
        json!({"action": "activate", "version": "1"}),
    ];
    for change in cases {
        let refused: HttpResponse = client.patch(&format!("/api/loans/{loan_id}"), &change).await;
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("validation-failed")), "{change}");
    }
    client.patch(&format!("/api/loans/{}", Uuid::now_v7()), &json!({"action": "close"})).await.with_status(404);
    client.get("/api/loans/none/status").await.with_status(400);
    client.get(&format!("/api/loans/{}/status", Uuid::now_v7())).await.with_status(404);
    client.get(&format!("/api/loans/{loan_id}/ledger?asOf=yesterday")).await.with_status(400);
    client.get(&format!("/api/loans/{loan_id}/ledger?after=x")).await.with_status(400);
    assert_eq!(row_counts(&fixture).await, before);
    for code in ["loan-exists", "borrower-exists", "loan-changed", "loan-not-funded", "loan-refuses"] {
        client.get(&format!("/problems/{code}")).await.with_status(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_product_in_a_currency_without_payments_is_rejected() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let before = row_counts(&fixture).await;
    for currency in ["EUR", "JPY"] {
        let body = json!({
            "code": "abroad", "currency": currency, "annual_rate": "0.07", "day_count": "30/360", "term_months": 6,
        });
        let refused = client.post("/api/products", &body).await;
        assert_eq!((refused.status, refused.wrong_fields()), (422, vec!["/currency"]), "{}", refused.body);
        let why = refused.body["errors"][0]["message"].as_str().expect("a message");
        assert!(why.contains(currency) && why.contains("use USD"), "{why}");
    }
    assert_eq!(row_counts(&fixture).await, before, "a refused request writes nothing");
}
