//! The door: what is taken in, what is refused, and what is shown to an operator.

use crate::payments_support::*;
use crate::support::{Answer, Desk, Office};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_payment_is_refused_with_its_place_and_changes_nothing() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let good = mock(loan_id, "t", 100);
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
        (changed("loan_id", json!(Uuid::now_v7())), "/loan_id"),
        (changed("loan_id", json!("7")), "/loan_id"),
        (changed("txn_id", json!("")), "/txn_id"),
        (changed("txn_id", json!("x".repeat(256))), "/txn_id"),
        (changed("effective_date", json!("yesterday")), "/effective_date"),
        (changed("method", json!("gold")), "/method"),
        (changed("allocation_hints", json!({"bucket": "beer"})), "/allocation_hints"),
    ] {
        let answer = take_in(&desk, &body).await;
        assert_eq!((answer.status, answer.wrong_fields()), (422, vec![field]), "{body}: {}", answer.body);
    }
    take_in(&desk, &changed("txn_id", json!("a\u{0}b"))).await.with_status(422);
    let mut decimal = good.clone();
    decimal.as_object_mut().unwrap().remove("amount_minor");
    decimal["amount"] = json!("12.345");
    assert_eq!(take_in(&desk, &decimal).await.wrong_fields(), ["/amount"]);
    let text = desk.request(Method::POST, "/payments/intake/mock").header("content-type", "text/plain").body("{}");
    Answer::to(text).await.with_status(415);
    let broken =
        desk.request(Method::POST, "/payments/intake/mock").header("content-type", "application/json").body("{");
    Answer::to(broken).await.with_status(400);
    for provider in ["nobody", "direct", "Mock"] {
        let answer = Answer::to(desk.request(Method::POST, &format!("/payments/intake/{provider}")).json(&good)).await;
        assert_eq!(answer.body["code"], "provider-unknown", "{provider}: {}", answer.body);
        assert_eq!(answer.status, 404);
    }
    assert_eq!(office.count("lending.payment_intake").await, 0);
    assert_eq!(published(&office, "payment.received.v1").await, 0);
    assert_eq!(office.audited("acme", "payment_received").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_taken_from_a_provider_that_was_removed() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    office
        .owner
        .execute("DELETE FROM lending.gateway_provider WHERE provider_code = 'mock'", &[])
        .await
        .expect("it goes");
    let refused = take_in(&desk, &mock(loan_id, "t", 100)).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (404, Some("provider-unknown")));
    assert_eq!(office.count("lending.payment_intake").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lacks_the_role_takes_nothing_in() {
    let office = Office::open().await;
    let token = office.platform.token_for("acme", "reader", &["payments:read".to_owned()], 3600);
    let desk = office.desk("acme");
    let request = desk.request(Method::POST, "/payments/intake/mock").json(&mock(Uuid::now_v7(), "t", 1));
    Answer::to(without_token(request).bearer_auth(token)).await.with_status(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_says_something_else_is_a_conflict_that_an_operator_resolves() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let other_loan = funded_loan(&desk, 31, json!({})).await;
    let payment = posted(&desk, &mock_on(loan_id, "txn-1", 900, today())).await;
    let payment_id = id(&payment["payment_id"]);

    for body in [mock(loan_id, "txn-1", 901), mock(other_loan, "txn-1", 900), mock(loan_id, "txn-1", 901)] {
        let answer = take_in(&desk, &body).await;
        assert_eq!((answer.status, answer.body["code"].as_str()), (409, Some("payment-conflict")), "{}", answer.body);
    }
    let another_day = take_in(&desk, &mock_on(loan_id, "txn-1", 900, days_ago(1))).await;
    assert_eq!(another_day.status, 409);
    take_in(&desk, &mock(loan_id, "txn-1", 900)).await.with_status(200);

    let open = desk.get("/api/payments/conflicts").await.with_status(200);
    let open = open["conflicts"].as_array().expect("a list").clone();
    assert_eq!(open.len(), 3, "the same words again are the same conflict");
    assert_eq!(open[0]["differs"], json!({"amount_minor": {"known": "900", "claimed": "901"}}));
    assert_eq!((open[0]["times"].clone(), open[0]["payment_id"].clone()), (json!(2), json!(payment_id)));
    assert_eq!(open[1]["differs"]["loan_id"]["claimed"], json!(other_loan));
    assert_eq!(office.audited("acme", "payment_conflict_seen").await, 4);
    assert_eq!(office.count("lending.payment_intake").await, 1);
    assert_eq!(balance(&desk, loan_id, "cash").await, 900);
    assert_eq!(self::payment(&desk, payment_id).await["conflicts"].as_array().unwrap().len(), 3);

    let path = format!("/api/payments/conflicts/{}/resolve", open[0]["conflict_id"].as_str().unwrap());
    desk.post(&path, &json!({"resolution": "whatever"})).await.with_status(422);
    let resolved = desk.post(&path, &json!({"resolution": "original_stands", "note": "a typo at the bank"})).await;
    assert_eq!(resolved.with_status(200)["resolution"], "original_stands");
    desk.post(&path, &json!({"resolution": "original_stands"})).await.with_status(409);
    let missing = format!("/api/payments/conflicts/{}/resolve", Uuid::now_v7());
    desk.post(&missing, &json!({"resolution": "original_stands"})).await.with_status(404);
    let left = desk.get("/api/payments/conflicts").await.with_status(200);
    assert_eq!(left["conflicts"].as_array().unwrap().len(), 2);
    let page = desk.get("/api/payments/conflicts?all=true&limit=1").await.with_status(200);
    assert_eq!((page["conflicts"].as_array().unwrap().len(), page["next"].is_null()), (1, false));
    assert_eq!(office.audited("acme", "payment_conflict_resolved").await, 1);
}

async fn file(desk: &Desk<'_>, text: &str) -> Answer {
    let request = desk.request(Method::POST, "/payments/intake/bank").header("content-type", "text/csv; charset=utf-8");
    Answer::to(request.body(text.to_owned())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_of_a_banks_file_has_its_own_result_and_the_file_may_come_again() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
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
    let first = file(&desk, &text).await.with_status(200);
    let lines = |answer: &Value| -> Vec<(u64, String)> {
        let lines = answer["lines"].as_array().unwrap().iter();
        lines.map(|line| (line["line"].as_u64().unwrap(), line["result"].as_str().unwrap().to_owned())).collect()
    };
    let expected = |results: [&str; 7]| (2..).zip(results.map(str::to_owned)).collect::<Vec<(u64, String)>>();
    assert_eq!(
        lines(&first),
        expected(["accepted", "refused", "refused", "duplicate", "refused", "refused", "accepted"]),
        "{first}"
    );
    assert_eq!(
        (first["accepted"].clone(), first["duplicate"].clone(), first["refused"].clone()),
        (json!(2), json!(1), json!(4))
    );
    assert!(first["lines"][1]["reason"].as_str().unwrap().contains("amount"));
    assert!(first["lines"][2]["reason"].as_str().unwrap().contains("no loan"));
    assert_eq!(first["lines"][4]["reason"], "conflict");
    let second = file(&desk, &text).await.with_status(200);
    assert_eq!(
        lines(&second),
        expected(["duplicate", "refused", "refused", "duplicate", "refused", "refused", "duplicate"])
    );
    for line in [0, 6] {
        becomes(&desk, id(&first["lines"][line]["payment_id"]), "posted").await;
    }
    quiet(&office).await;
    assert_eq!(balance(&desk, loan_id, "cash").await, 1250);
    assert_eq!(office.count("lending.payment_intake").await, 2);

    for (text, what) in [("", "no column"), ("trace_number,loan_id,amount\n", "no entry"), ("a,b\n1,2\n", "no column")]
    {
        let refused = file(&desk, text).await.with_status(422);
        assert!(refused["detail"].as_str().unwrap().contains(what), "{refused}");
    }
    let one = json!({"trace_number": "006", "loan_id": loan_id, "amount": "1.00"});
    let alone = Answer::to(desk.request(Method::POST, "/payments/intake/bank").json(&one)).await;
    alone.with_status(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_files_with_the_same_entries_in_another_order_do_not_block_each_other() {
    let office = Office::without_consumers(onceward_lending::Settings::default(), None).await;
    let mut office = office;
    office.platform.run_consumers();
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 31, json!({})).await;
    let entries: Vec<String> = (0..200).map(|n| format!("{n},{loan_id},1.00")).collect();
    let text = |entries: &[String]| format!("trace_number,loan_id,amount\n{}\n", entries.join("\n"));
    let backwards: Vec<String> = entries.iter().rev().cloned().collect();
    let (forwards, backwards) = (text(&entries), text(&backwards));
    for _ in 0..3 {
        let (one, other) = tokio::join!(file(&desk, &forwards), file(&desk, &backwards));
        let (one, other) = (one.with_status(200), other.with_status(200));
        assert_eq!((one["refused"].clone(), other["refused"].clone()), (json!(0), json!(0)));
    }
    assert_eq!(office.count("lending.payment_intake").await, 200);
    assert_eq!(published(&office, "payment.received.v1").await, 200);
}
