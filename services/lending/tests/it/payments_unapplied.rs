//! Money of payments that failed validation: it is in the books, and settled once.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use futures_util::future::join_all;
use onceward::outbox;
use onceward_ledger::{Account, credit, debit};
use onceward_lending::payments::events::PaymentRaw;
use onceward_money::Minor;
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

const TOO_LARGE: i64 = 500_000_001;

/// Returns the amount that the tenants' own books hold for payers, in dollars.
async fn unapplied(fixture: &LendingFixture) -> i64 {
    let sql = "SELECT coalesce(-sum(balance_minor), 0)::bigint FROM ledger.balance
               WHERE account = 'unapplied_cash' AND currency = 'USD'";
    fixture.query_value(sql, &[]).await
}

/// Returns the cash in all books, in dollars.
async fn all_cash(fixture: &LendingFixture) -> i64 {
    let sql = "SELECT coalesce(sum(balance_minor), 0)::bigint FROM ledger.balance
               WHERE account = 'cash' AND currency = 'USD'";
    fixture.query_value(sql, &[]).await
}

async fn fails(client: &ApiClient<'_>, body: &Value) -> Uuid {
    let payment_id = submit_new(client, body).await;
    wait_for_status(client, payment_id, "failed").await;
    payment_id
}

/// Sends a request and returns the payment once that is done or refused.
async fn request_action(client: &ApiClient<'_>, payment_id: Uuid, what: &str, body: Value) -> Value {
    let asked = client.post(&format!("/api/payments/{payment_id}/{what}"), &body).await.with_status(202);
    assert_matches_schema(client, "payment.accepted.v1", &asked);
    eventually("the command is settled", || async {
        let found = payment(client, payment_id).await;
        (found["command"]["state"] != "processing").then_some(found)
    })
    .await
}

async fn listed(client: &ApiClient<'_>, query: &str) -> Vec<Uuid> {
    let found = client.get(&format!("/api/payments/unapplied{query}")).await.with_status(200);
    assert_matches_schema(client, "payment.unapplied.v1", &found);
    found["payments"].as_array().unwrap().iter().map(|payment| id(&payment["payment_id"])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_money_of_a_failed_payment_is_unapplied_cash_until_it_is_refunded() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = funded_loan(&client, 31, json!({})).await;
    let payment_id = fails(&client, &mock_payment(loan_id, "large", TOO_LARGE)).await;
    let mut euro = mock_payment(loan_id, "euro", 700);
    euro["currency"] = json!("EUR");
    let euro = fails(&client, &euro).await;
    wait_until_idle(&fixture).await;

    let found = payment(&client, payment_id).await;
    assert_eq!(
        (&found["unapplied"]["status"], &found["unapplied"]["reason"]),
        (&json!("held"), &json!("amount_too_large"))
    );
    let lines: Vec<(&str, &str)> = found["ledger"][0]["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["account"].as_str().unwrap(), line["side"].as_str().unwrap()))
        .collect();
    assert_eq!(lines, [("cash", "debit"), ("unapplied_cash", "credit")], "{found}");
    assert_eq!(found["ledger"][0]["effective_date"], json!(today()));
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (TOO_LARGE, TOO_LARGE));
    assert_eq!(balance(&client, loan_id, "cash").await, 0, "nothing is booked on the loan");
    assert_eq!(listed(&client, "").await, [payment_id, euro]);
    assert!(listed(&fixture.client("globex"), "?all=true").await.is_empty(), "another tenant sees nothing");
    let published_id = "SELECT payload->>'unapplied_event_id' FROM onceward.outbox_messages
                WHERE event_type = 'payment.failed.v1' AND payload->>'payment_id' = $1";
    let published_id: String = fixture.query_value(published_id, &[&payment_id.to_string()]).await;
    assert_eq!(json!(published_id), found["unapplied"]["event_id"]);

    let refused =
        request_action(&client, payment_id, "refund", json!({"reason": "x", "refunded_on": days_ago(1)})).await;
    assert_eq!(refused["command"]["state"], "refused", "{refused}");
    let tomorrow = today().tomorrow().unwrap();
    let path = format!("/api/payments/{payment_id}/refund");
    client.post(&path, &json!({"reason": "x", "refunded_on": tomorrow})).await.with_status(409);
    client.post(&path, &json!({})).await.with_status(422);
    assert_eq!(unapplied(&fixture).await, TOO_LARGE, "the refused request changed nothing");

    let refunded = request_action(&client, payment_id, "refund", json!({"reason": "not ours"})).await;
    assert_eq!((&refunded["status"], &refunded["unapplied"]["note"]), (&json!("refunded"), &json!("not ours")));
    assert_eq!(refunded["unapplied"]["settled_by"], "tester");
    assert_eq!(refunded["ledger"].as_array().unwrap().len(), 2, "booked and refunded");
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (0, 0));
    client.post(&path, &json!({"reason": "again"})).await.with_status(409);
    request_action(&client, euro, "refund", json!({"reason": "dollars only"})).await;
    wait_until_idle(&fixture).await;
    assert!(listed(&client, "").await.is_empty());
    assert_eq!(listed(&client, "?all=true&limit=1").await, [payment_id]);
    assert_eq!(listed(&client, &format!("?all=true&after={payment_id}")).await, [euro]);
    assert_eq!(published(&fixture, "payment.refunded.v1").await, 2);
    assert_eq!(fixture.count_audit_entries("acme", "payment_refunded").await, 2);
    let seen = "SELECT count(*) FROM lending.payment_event WHERE event_type = 'payment.refunded.v1'";
    assert_eq!(fixture.query_value::<i64>(seen, &[]).await, 2);
    assert_books_balance(&fixture).await;

    // The check of the books includes the tenant's own.
    let tx = client.begin().await;
    let checked = onceward_ledger::check(&tx).await.unwrap();
    assert!(checked.agrees(), "{checked:?}");
    let line = checked.trial_balance.iter().find(|line| line.account == onceward_ledger::Account::UnappliedCash);
    assert!(line.is_some_and(|line| line.balance().unwrap().is_zero()), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_payment_is_posted_after_its_cause_is_resolved() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({"day_count": "ACT/365"})).await;
    let loan_id = client.loan("home", json!({"start_date": days_ago(20)})).await;
    let payment_id = fails(&client, &mock_payment_on(loan_id, "early", 2_500, days_ago(3))).await;
    let refused = request_action(&client, payment_id, "revalidate", json!({})).await;
    assert_eq!(refused["command"]["state"], "refused");
    assert!(
        refused["command"]["reason"].as_str().unwrap().contains("still fails validation (loan_status)"),
        "{refused}"
    );
    assert_eq!((&refused["status"], &refused["unapplied"]["status"]), (&json!("failed"), &json!("held")));
    assert_eq!(unapplied(&fixture).await, 2_500);

    client.change(loan_id, json!({"action": "activate", "funded_on": days_ago(20)})).await;
    fixture.run_daily_work("acme", today()).await;
    // A concurrent request for something else is refused: the money exists once.
    let [revalidate, refund] = ["revalidate", "refund"].map(|what| format!("/api/payments/{payment_id}/{what}"));
    let body = json!({});
    join_all((0..4).map(|_| client.post(&revalidate, &body))).await;
    let posted = wait_for_status(&client, payment_id, "posted").await;
    wait_until_idle(&fixture).await;
    assert_eq!(client.post(&refund, &json!({"reason": "too late"})).await.status, 409);
    assert_eq!(posted["unapplied"]["status"], "applied");
    let event = posted["ledger"].as_array().unwrap().iter().find(|event| event["schema"] == "posting.payment.v1");
    assert_eq!(event.expect("a posting")["effective_date"], json!(days_ago(3)), "it counts from its effective day");
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (0, 2_500));
    assert_eq!(balance(&client, loan_id, "cash").await, 2_500);
    assert_eq!(published(&fixture, "payment.posted.v1").await, 1);
    assert_eq!(published(&fixture, "payment.revalidated.v1").await, 1);
    assert_eq!(fixture.count_audit_entries("acme", "payment_revalidated").await, 1);
    assert_books_balance(&fixture).await;

    // A payment that is too old takes effect on a day that an operator chooses; its return works like any other.
    let stale = fails(&client, &mock_payment_on(loan_id, "stale", 900, days_ago(15))).await;
    request_action(&client, stale, "revalidate", json!({"effective_date": days_ago(2)})).await;
    wait_for_status(&client, stale, "posted").await;
    client.post(&format!("/api/payments/{stale}/return"), &json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(&client, stale, "returned").await;
    assert_eq!(all_cash(&fixture).await, 2_500);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_payment_is_moved_to_the_loan_it_was_meant_for() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({})).await;
    let named = client.loan("home", json!({})).await;
    let closed = client.loan("home", json!({})).await;
    let meant = funded_loan(&client, 31, json!({})).await;
    let payment_id = fails(&client, &mock_payment_on(named, "misdirected", 4_000, days_ago(2))).await;
    let path = format!("/api/payments/{payment_id}/move");
    client.post(&path, &json!({"loan_id": Uuid::now_v7()})).await.with_status(422);
    client.post(&path, &json!({"loan_id": named})).await.with_status(409);
    let refused = request_action(&client, payment_id, "move", json!({"loan_id": closed})).await;
    assert!(refused["command"]["reason"].as_str().unwrap().contains("loan_status"), "{refused}");
    assert_eq!(fixture.count("lending.payment_intake").await, 1, "the refused request changed nothing");
    assert_eq!(unapplied(&fixture).await, 4_000);

    let moved = request_action(&client, payment_id, "move", json!({"loan_id": meant, "reason": "wrong number"})).await;
    assert_eq!((&moved["status"], &moved["unapplied"]["to_loan_id"]), (&json!("moved"), &json!(meant)), "{moved}");
    let other = wait_for_status(&client, id(&moved["unapplied"]["to_payment_id"]), "posted").await;
    wait_until_idle(&fixture).await;
    assert_eq!(other["intake"]["amount_minor"], "4000");
    assert_eq!(other["intake"]["effective_date"], json!(days_ago(2)));
    assert_eq!(other["intake"]["received_at"], moved["intake"]["received_at"], "the time of receipt is kept");
    assert_eq!(balance(&client, meant, "cash").await, 4_000);
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (0, 4_000));
    client.post(&path, &json!({"loan_id": meant})).await.with_status(409);
    for event_type in ["payment.moved.v1", "payment.posted.v1", "payment.failed.v1"] {
        assert_eq!(published(&fixture, event_type).await, 1, "{event_type}");
    }
    assert_eq!(fixture.count_audit_entries("acme", "payment_moved").await, 1);
    let letters: i64 = fixture.count("onceward.dead_letters").await;
    assert_eq!(letters, 0);
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_the_books_refuse_fails_and_its_money_is_unapplied_cash() {
    let mut fixture = LendingFixture::without_consumers(onceward_lending::Settings::default(), None).await;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let (broken, sound) = (funded_loan(&client, 31, json!({})).await, funded_loan(&client, 31, json!({})).await);
    fixture.run_daily_work("acme", today()).await;
    // A manual correction: most of the principal is written off as of yesterday.
    let lines = vec![
        debit(Account::ChargeOffExpense, Minor::new(119_000), "by hand"),
        credit(Account::LoanPrincipal, Minor::new(119_000), "by hand"),
    ];
    client.post_lines(broken, days_ago(1), "posting.correction.v1", lines).await;

    let bodies: Vec<Value> = (0..6)
        .map(|nth| mock_payment_on(if nth == 3 { broken } else { sound }, &format!("t{nth}"), 4_000, days_ago(3)))
        .collect();
    let payments = join_all(bodies.iter().map(|body| submit_new(&client, body))).await;
    for (nth, payment_id) in payments.iter().enumerate() {
        wait_for_status(&client, *payment_id, if nth == 3 { "failed" } else { "posted" }).await;
    }
    wait_until_idle(&fixture).await;
    let found = payment(&client, payments[3]).await;
    assert_eq!((&found["validation"]["is_valid"], &found["posting"]), (&json!(false), &Value::Null), "{found}");
    for part in ["validation", "unapplied"] {
        assert_eq!(found[part]["reason"], "posting_refused", "{found}");
    }
    assert!(found["unapplied"]["detail"].as_str().unwrap().contains("principal"), "{found}");
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (4_000, 24_000));
    assert_eq!(balance(&client, broken, "cash").await, 0, "the effects of the posting are rolled back");
    assert_eq!(listed(&client, "").await, [payments[3]]);
    assert_eq!(fixture.count("onceward.dead_letters").await, 0);
    assert_eq!(published(&fixture, "payment.failed.v1").await, 1);
    assert_eq!(fixture.count_audit_entries("acme", "payment_failed").await, 1);
    assert_books_balance(&fixture).await;

    let refused = request_action(&client, payments[3], "revalidate", json!({})).await;
    assert_eq!((&refused["command"]["state"], &refused["status"]), (&json!("refused"), &json!("failed")), "{refused}");
    assert_eq!(unapplied(&fixture).await, 4_000, "the refused request changed nothing");
    let moved = request_action(&client, payments[3], "move", json!({"loan_id": sound})).await;
    assert_eq!(moved["status"], "moved", "{moved}");
    wait_for_status(&client, id(&moved["unapplied"]["to_payment_id"]), "posted").await;
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (0, 24_000));
    assert_books_balance(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn received_money_for_an_unknown_loan_is_accepted_by_every_intake() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let meant = funded_loan(&client, 31, json!({})).await;
    let nobody = Uuid::now_v7();
    let others = funded_loan(&fixture.client("globex"), 31, json!({})).await;
    let by_gateway = submit_new(&client, &mock_payment(nobody, "gateway", 1_000)).await;
    let of_other_tenant = submit_new(&client, &mock_payment(others, "other tenant", 200)).await;
    let raw = PaymentRaw { provider: "mock".to_owned(), payload: mock_payment(nobody, "queue", 30) };
    let mut tx = client.begin().await;
    outbox::publish(&mut tx, &raw).await.expect("the message is accepted");
    tx.commit().await.expect("the commit succeeds");
    wait_until_idle(&fixture).await;
    for payment_id in [by_gateway, of_other_tenant] {
        let failed = wait_for_status(&client, payment_id, "failed").await;
        assert_eq!(failed["unapplied"]["reason"], "loan_not_found", "{failed}");
    }
    assert_eq!(listed(&client, "").await.len(), 3);
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (1_230, 1_230));
    assert_eq!(fixture.count("onceward.dead_letters").await, 0);
    let again = submit(&client, &mock_payment(nobody, "gateway", 1_000)).await.with_status(200);
    assert_eq!(again["status"], "duplicate");

    // Here nothing was received: the caller still has the money.
    let asked = json!({"loan_id": nobody, "amount_minor": "5"});
    assert_eq!(client.post("/api/payments", &asked).await.wrong_fields(), ["/loan_id"]);
    assert_eq!(fixture.count("lending.payment_intake").await, 3);

    let moved =
        request_action(&client, by_gateway, "move", json!({"loan_id": meant, "reason": "a typing error"})).await;
    wait_for_status(&client, id(&moved["unapplied"]["to_payment_id"]), "posted").await;
    request_action(&client, of_other_tenant, "refund", json!({"reason": "not ours"})).await;
    assert_eq!(balance(&client, meant, "cash").await, 1_000);
    assert_eq!((unapplied(&fixture).await, all_cash(&fixture).await), (30, 1_030));
    assert_books_balance(&fixture).await;
}
