//! Payment intake: accepted payments, rejected ones, and what an operator sees.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use onceward::outbox;
use onceward_lending::payments::events::PaymentRaw;
use onceward_testkit::HttpResponse;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_payload_is_rejected_with_its_field_and_changes_nothing() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let good = mock_payment(loan_id, "t", 100);
    let changed = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body
    };
    for (body, field) in [
        (changed("amount_minor", json!("0")), "/amount_minor"),
        (changed("amount_minor", json!("-5")), "/amount_minor"),
        (changed("amount_minor", json!("1.5")), "/amount_minor"),
        (changed("amount_minor", json!(100)), "/amount_minor"),
        (changed("amount_minor", json!(1.0)), "/amount_minor"),
        (changed("amount_minor", json!("9223372036854775808")), "/amount_minor"),
        (changed("currency", json!("usd")), "/currency"),
        (changed("currency", json!("DOLLAR")), "/currency"),
        (changed("loan_id", json!("7")), "/loan_id"),
        (changed("txn_id", json!("")), "/txn_id"),
        (changed("txn_id", json!("x".repeat(256))), "/txn_id"),
        (changed("effective_date", json!("yesterday")), "/effective_date"),
        (changed("method", json!("gold")), "/method"),
        (changed("allocation_hints", json!({"bucket": "unknown"})), "/allocation_hints"),
    ] {
        let response = submit(&client, &body).await;
        assert_eq!((response.status, response.wrong_fields()), (422, vec![field]), "{body}: {}", response.body);
    }
    submit(&client, &changed("txn_id", json!("a\u{0}b"))).await.with_status(422);
    let mut decimal = good.clone();
    decimal.as_object_mut().unwrap().remove("amount_minor");
    decimal["amount"] = json!("12.345");
    assert_eq!(submit(&client, &decimal).await.wrong_fields(), ["/amount"]);
    let text = client.request(Method::POST, "/payments/intake/mock").header("content-type", "text/plain").body("{}");
    HttpResponse::to(text).await.with_status(415);
    let broken =
        client.request(Method::POST, "/payments/intake/mock").header("content-type", "application/json").body("{");
    HttpResponse::to(broken).await.with_status(400);
    for provider in ["nobody", "direct", "Mock"] {
        let response =
            HttpResponse::to(client.request(Method::POST, &format!("/payments/intake/{provider}")).json(&good)).await;
        assert_eq!(response.body["code"], "provider-unknown", "{provider}: {}", response.body);
        assert_eq!(response.status, 404);
    }
    assert_eq!(fixture.count("lending.payment_intake").await, 0);
    assert_eq!(published(&fixture, "payment.received.v1").await, 0);
    assert_eq!(fixture.count_audit_entries("acme", "payment_received").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_from_a_removed_provider_are_rejected() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    fixture
        .owner
        .execute("DELETE FROM lending.gateway_provider WHERE provider_code = 'mock'", &[])
        .await
        .expect("the row is deleted");
    let refused = submit(&client, &mock_payment(loan_id, "t", 100)).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (404, Some("provider-unknown")));
    assert_eq!(fixture.count("lending.payment_intake").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_from_mock_are_rejected_unless_the_settings_enable_it() {
    let mut fixture = LendingFixture::with_settings(onceward_lending::Settings::default(), None).await;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let refused = submit(&client, &mock_payment(loan_id, "t", 100)).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (404, Some("provider-unknown")));
    assert!(refused.body["detail"].as_str().unwrap().contains("lending.mock_provider"), "{}", refused.body);

    let raw = PaymentRaw { provider: "mock".to_owned(), payload: mock_payment(loan_id, "q", 100) };
    let mut tx = client.begin().await;
    outbox::publish(&mut tx, &raw).await.expect("the message is accepted");
    tx.commit().await.expect("the commit succeeds");
    wait_until_idle(&fixture).await;
    let dead = "SELECT count(*) FROM onceward.dead_letters WHERE queue = 'q.payments.intake'";
    assert_eq!(fixture.query_value::<i64>(dead, &[]).await, 1, "the queue does not accept it either");
    assert_eq!(fixture.count("lending.payment_intake").await, 0);

    let entry = json!({"trace_number": "1", "loan_id": loan_id, "amount": "1.00"});
    HttpResponse::to(client.request(Method::POST, "/payments/intake/bank").json(&entry)).await.with_status(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_transaction_id_of_two_providers_is_two_payments() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let by_mock = submit(&client, &mock_payment_on(loan_id, "7", 1000, today())).await.with_status(201);
    let entry = json!({"trace_number": "7", "loan_id": loan_id, "amount": "10.00", "effective_date": today()});
    let bank = async || HttpResponse::to(client.request(Method::POST, "/payments/intake/bank").json(&entry)).await;
    let by_bank = bank().await.with_status(201);
    assert_ne!(by_mock["payment_id"], by_bank["payment_id"]);
    assert_eq!(by_mock["idempotency_key"], by_bank["idempotency_key"], "the key has no provider in it");
    for payment in [&by_mock, &by_bank] {
        wait_for_status(&client, id(&payment["payment_id"]), "posted").await;
    }
    wait_until_idle(&fixture).await;
    assert_eq!(balance(&client, loan_id, "cash").await, 2000);
    for payment in [&by_mock, &by_bank] {
        let shown = self::payment(&client, id(&payment["payment_id"])).await;
        let types: Vec<&str> =
            shown["messages"].as_array().unwrap().iter().filter_map(|m| m["type"].as_str()).collect();
        assert_eq!(
            types,
            ["payment.received.v1", "payment.validated.v1", "payment.posted.v1"],
            "only its own messages"
        );
    }

    let again = bank().await.with_status(200);
    assert_matches_schema(&client, "payment.intake.v1", &again);
    assert_eq!((&again["status"], &again["payment_id"]), (&json!("duplicate"), &by_bank["payment_id"]));
    submit(&client, &mock_payment_on(loan_id, "7", 1001, today())).await.with_status(409);
    let conflicts = client.get("/api/payments/conflicts").await.with_status(200);
    assert_eq!(conflicts["conflicts"][0]["payment_id"], by_mock["payment_id"], "the payment of the same provider");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_allows_only_its_own_routes() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let payment_id = submit_new(&client, &mock_payment(loan_id, "t", 1)).await;
    let conflict = format!("/api/payments/conflicts/{}/resolve", Uuid::now_v7());
    let (return_path, post_path) =
        (format!("/api/payments/{payment_id}/return"), format!("/api/payments/{payment_id}/post"));
    let provider = "/api/payments/providers/stripe";
    let [revalidated, moved, refunded] =
        ["revalidate", "move", "refund"].map(|what| format!("/api/payments/{payment_id}/{what}"));
    let routes: [(&str, Method, &str, Value); 10] = [
        ("payments:intake", Method::POST, "/payments/intake/mock", mock_payment(loan_id, "t", 1)),
        ("payments:make", Method::POST, "/api/payments", json!({"loan_id": loan_id, "amount_minor": "1"})),
        ("payments:operate", Method::POST, &conflict, json!({"resolution": "original_stands"})),
        ("payments:operate", Method::POST, &return_path, json!({"reason": "R01"})),
        ("payments:operate", Method::POST, &post_path, json!(null)),
        ("payments:operate", Method::POST, "/api/payments/allocate", json!({"loan_id": loan_id})),
        ("payments:operate", Method::PUT, provider, json!({"webhook_secret": "whsec_0123456789abcdef"})),
        ("payments:operate", Method::POST, &revalidated, json!({})),
        ("payments:operate", Method::POST, &moved, json!({"loan_id": loan_id})),
        ("payments:operate", Method::POST, &refunded, json!({"reason": "not ours"})),
    ];
    for role in ["payments:read", "payments:write", "payments:intake", "payments:make", "payments:operate"] {
        let token = fixture.platform.token_for("acme", "somebody", &[role.to_owned()], 3600);
        for (needed, method, path, body) in &routes {
            let request = client.request(method.clone(), path).header("idempotency-key", Uuid::now_v7().to_string());
            let status = HttpResponse::to(without_token(request).bearer_auth(&token).json(body)).await.status;
            assert_eq!(status == 403, role != *needed, "{role} at {method} {path}: {status}");
        }
        // A refund from suspense uses the loan's route, and still requires an operator.
        for (with, is_enough) in [(None, false), (Some("loans:write"), role == "payments:operate")] {
            let roles: Vec<String> = [Some(role), with].into_iter().flatten().map(str::to_owned).collect();
            let token = fixture.platform.token_for("acme", "somebody", &roles, 3600);
            let request = client.request(Method::PATCH, &format!("/api/loans/{loan_id}"));
            let request = without_token(request.header("idempotency-key", Uuid::now_v7().to_string()));
            let request = request.bearer_auth(token).json(&json!({"action": "refund_suspense"}));
            let status = HttpResponse::to(request).await.status;
            assert_eq!(status, if is_enough { 202 } else { 403 }, "{roles:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_with_different_data_is_a_conflict_that_an_operator_resolves() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let other_loan = funded_loan(&client, 31, json!({})).await;
    let payment = submit_and_post(&client, &mock_payment_on(loan_id, "txn-1", 900, today())).await;
    let payment_id = id(&payment["payment_id"]);

    for body in [
        mock_payment(loan_id, "txn-1", 901),
        mock_payment(other_loan, "txn-1", 900),
        mock_payment(loan_id, "txn-1", 901),
    ] {
        let response = submit(&client, &body).await;
        assert_eq!(
            (response.status, response.body["code"].as_str()),
            (409, Some("payment-conflict")),
            "{}",
            response.body
        );
    }
    let another_day = submit(&client, &mock_payment_on(loan_id, "txn-1", 900, days_ago(1))).await;
    assert_eq!(another_day.status, 409);
    submit(&client, &mock_payment(loan_id, "txn-1", 900)).await.with_status(200);

    let open_conflicts = client.get("/api/payments/conflicts").await.with_status(200);
    assert_matches_schema(&client, "payment.conflicts.v1", &open_conflicts);
    let open_conflicts = open_conflicts["conflicts"].as_array().expect("a list").clone();
    assert_eq!(open_conflicts.len(), 3, "the same data again is the same conflict");
    assert_eq!(open_conflicts[0]["differs"], json!({"amount_minor": {"known": "900", "claimed": "901"}}));
    assert_eq!(
        (open_conflicts[0]["times"].clone(), open_conflicts[0]["payment_id"].clone()),
        (json!(2), json!(payment_id))
    );
    assert_eq!(open_conflicts[1]["differs"]["loan_id"]["claimed"], json!(other_loan));
    assert_eq!(fixture.count_audit_entries("acme", "payment_conflict_seen").await, 4);
    assert_eq!(fixture.count("lending.payment_intake").await, 1);
    assert_eq!(balance(&client, loan_id, "cash").await, 900);
    assert_eq!(self::payment(&client, payment_id).await["conflicts"].as_array().unwrap().len(), 3);

    let path = format!("/api/payments/conflicts/{}/resolve", open_conflicts[0]["conflict_id"].as_str().unwrap());
    client.post(&path, &json!({"resolution": "whatever"})).await.with_status(422);
    let resolved = client.post(&path, &json!({"resolution": "original_stands", "note": "a typo at the bank"})).await;
    let resolved = resolved.with_status(200);
    assert_matches_schema(&client, "payment.conflict.v1", &resolved);
    assert_eq!(resolved["resolution"], "original_stands");
    client.post(&path, &json!({"resolution": "original_stands"})).await.with_status(409);
    let missing = format!("/api/payments/conflicts/{}/resolve", Uuid::now_v7());
    client.post(&missing, &json!({"resolution": "original_stands"})).await.with_status(404);
    let left = client.get("/api/payments/conflicts").await.with_status(200);
    assert_eq!(left["conflicts"].as_array().unwrap().len(), 2);
    let page = client.get("/api/payments/conflicts?all=true&limit=1").await.with_status(200);
    assert_eq!((page["conflicts"].as_array().unwrap().len(), page["next"].is_null()), (1, false));
    assert_eq!(fixture.count_audit_entries("acme", "payment_conflict_resolved").await, 1);
}

async fn file(client: &ApiClient<'_>, text: &str) -> HttpResponse {
    let request =
        client.request(Method::POST, "/payments/intake/bank").header("content-type", "text/csv; charset=utf-8");
    HttpResponse::to(request.body(text.to_owned())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_of_a_bank_file_has_a_result_and_the_file_may_be_repeated() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let nobody = Uuid::now_v7();
    let text = format!(
        "trace_number,loan_id,amount,effective_date,name\r\n\
         001,{loan_id},10.00,{today},\"Example, Ada\"\r\n\
         002,{loan_id},10.005,,\r\n\
         003,{nobody},10.00,,\r\n\
         001,{loan_id},10.00,{today},again\r\n\
         001,{loan_id},11.00,{today},more\r\n\
         004,{loan_id},1.00\r\n\
         005,{loan_id},2.50,,late\r\n",
        today = today()
    );
    let first = file(&client, &text).await.with_status(200);
    let lines = |response: &Value| -> Vec<(u64, String)> {
        let lines = response["lines"].as_array().unwrap().iter();
        lines.map(|line| (line["line"].as_u64().unwrap(), line["result"].as_str().unwrap().to_owned())).collect()
    };
    let expected = |results: [&str; 7]| (2..).zip(results.map(str::to_owned)).collect::<Vec<(u64, String)>>();
    assert_eq!(
        lines(&first),
        expected(["accepted", "refused", "accepted", "duplicate", "refused", "refused", "accepted"]),
        "{first}"
    );
    assert_eq!(
        (first["accepted"].clone(), first["duplicate"].clone(), first["refused"].clone()),
        (json!(3), json!(1), json!(3))
    );
    assert!(first["lines"][1]["reason"].as_str().unwrap().contains("amount"));
    assert_eq!(first["lines"][4]["reason"], "conflict");
    let second = file(&client, &text).await.with_status(200);
    for response in [&first, &second] {
        assert_matches_schema(&client, "payment.intake.v1", response);
    }
    assert_eq!(
        lines(&second),
        expected(["duplicate", "refused", "duplicate", "duplicate", "refused", "refused", "duplicate"])
    );
    for line in [0, 6] {
        wait_for_status(&client, id(&first["lines"][line]["payment_id"]), "posted").await;
    }
    let of_no_loan = wait_for_status(&client, id(&first["lines"][2]["payment_id"]), "failed").await;
    assert_eq!(
        of_no_loan["validation"]["reason"], "loan_not_found",
        "the bank has the money, so the payment is accepted"
    );
    wait_until_idle(&fixture).await;
    assert_eq!(balance(&client, loan_id, "cash").await, 1250);
    assert_eq!(fixture.count("lending.payment_intake").await, 3);

    for (text, what) in [("", "no column"), ("trace_number,loan_id,amount\n", "no entry"), ("a,b\n1,2\n", "no column")]
    {
        let refused = file(&client, text).await.with_status(422);
        assert!(refused["detail"].as_str().unwrap().contains(what), "{refused}");
    }
    let one = json!({"trace_number": "006", "loan_id": loan_id, "amount": "1.00"});
    let alone = HttpResponse::to(client.request(Method::POST, "/payments/intake/bank").json(&one)).await;
    alone.with_status(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_files_with_the_same_entries_in_another_order_do_not_deadlock() {
    let fixture = LendingFixture::without_consumers(onceward_lending::Settings::default(), None).await;
    let mut fixture = fixture;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let entries: Vec<String> = (0..200).map(|n| format!("{n},{loan_id},1.00")).collect();
    let text = |entries: &[String]| format!("trace_number,loan_id,amount\n{}\n", entries.join("\n"));
    let backwards: Vec<String> = entries.iter().rev().cloned().collect();
    let (forwards, backwards) = (text(&entries), text(&backwards));
    for _ in 0..3 {
        let (one, other) = tokio::join!(file(&client, &forwards), file(&client, &backwards));
        let (one, other) = (one.with_status(200), other.with_status(200));
        assert_eq!((one["refused"].clone(), other["refused"].clone()), (json!(0), json!(0)));
    }
    assert_eq!(fixture.count("lending.payment_intake").await, 200);
    assert_eq!(published(&fixture, "payment.received.v1").await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_that_looks_like_an_escaped_nul_is_accepted() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let mut body = mock_payment(loan_id, "t", 100);
    body["memo"] = json!("a person typed \\u0000");
    submit_new(&client, &body).await;
}
