//! Paying from escrow: once, and only as the policy allows.

use crate::payments_support::{days_ago, published, today, wait_until_idle};
use crate::support::{ApiClient, LendingFixture};
use jiff::ToSpan;
use jiff::civil::Date;
use onceward::{Event, NewMessage, TenantId, outbox};
use onceward_ledger::{Account, credit, debit};
use onceward_lending::{
    Settings,
    escrow::{DisbursementRequest, Payee, Purpose, events::EscrowDisburse},
    loans::postings,
};
use onceward_money::Minor;
use onceward_testkit::{HttpResponse, eventually};
use serde_json::{Value, json};
use uuid::Uuid;

/// Creates a loan that was funded thirty days ago, with a product that advances up to `advance`.
async fn loan(client: &ApiClient<'_>, advance: i64) -> Uuid {
    let code = format!("e-{}", Uuid::now_v7().simple());
    let escrow = json!({"monthly_minor": "500", "advance_limit_minor": advance.to_string()});
    client.product(&code, json!({"escrow": escrow, "term_months": 12})).await;
    client.active_loan(&code, json!({"start_date": days_ago(30)})).await
}

async fn deposit_escrow(client: &ApiClient<'_>, loan_id: Uuid, day: Date, amount: i64) {
    let lines = vec![
        debit(Account::Cash, Minor::new(amount), "received"),
        credit(Account::EscrowLiability, Minor::new(amount), "escrow collected"),
    ];
    client.post_lines(loan_id, day, postings::PAYMENT, lines).await;
}

fn tax(amount: i64) -> Value {
    json!({"payee": {"name": "County", "reference": "12-345"}, "amount_minor": amount.to_string(), "purpose": "tax"})
}

async fn request_disbursement(client: &ApiClient<'_>, loan_id: Uuid, body: &Value) -> HttpResponse {
    client.post(&format!("/api/loans/{loan_id}/escrow/disbursements"), body).await
}

/// Returns the accepted disbursement, once it is settled.
async fn wait_until_settled(client: &ApiClient<'_>, accepted: &HttpResponse) -> Value {
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let location = accepted.header("location").expect("a 202 has a Location header").to_owned();
    eventually("the disbursement is settled", || async {
        let found = client.get(&location).await.with_status(200);
        (found["status"] != "requested").then_some(found)
    })
    .await
}

async fn escrow(client: &ApiClient<'_>, loan_id: Uuid) -> Value {
    client.get(&format!("/api/loans/{loan_id}/escrow")).await.with_status(200)
}

/// Publishes the command as another service would, under its own key.
async fn send(client: &ApiClient<'_>, command: &EscrowDisburse) {
    let tenant = TenantId::new(&client.tenant).unwrap();
    let mut tx = client.begin().await;
    let message = NewMessage::from_event(command, &tenant).unwrap().once_per(Uuid::now_v7().to_string());
    outbox::send(&mut tx, message).await.unwrap();
    tx.commit().await.unwrap();
}

fn command(disbursement_id: Uuid, loan_id: Uuid, amount: i64, day: Date) -> EscrowDisburse {
    let disbursement = DisbursementRequest {
        payee: Payee { name: "County".into(), reference: "12-345".into() },
        amount_minor: Minor::new(amount),
        purpose: Purpose::Tax,
        effective_date: day,
        due_date: None,
    };
    EscrowDisburse { disbursement_id, loan_id, disbursement }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disbursement_is_paid_and_published_once() {
    let fixture = LendingFixture::start().await;
    disbursement_is_paid_once(&fixture).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disbursement_is_paid_once_over_rabbitmq() {
    if !onceward_testkit::left_out("rabbitmq") {
        let fixture = LendingFixture::start_on(Some(&onceward_testkit::rabbitmq_url())).await;
        disbursement_is_paid_once(&fixture).await;
    }
}

async fn disbursement_is_paid_once(fixture: &LendingFixture) {
    let client = fixture.client("acme");
    let loan_id = loan(&client, 0).await;
    deposit_escrow(&client, loan_id, days_ago(10), 1500).await;
    let path = format!("/api/loans/{loan_id}/escrow/disbursements");
    let mut body = tax(1200);
    body["due_date"] = json!("2099-12-10");
    let first = client.post_as("tax-2026", &path, &body).await;
    let paid = wait_until_settled(&client, &first).await;
    let again = client.post_as("tax-2026", &path, &body).await;
    assert_eq!((again.status, &again.body), (202, &first.body));
    assert_eq!((&paid["status"], &paid["reason"]), (&json!("disbursed"), &Value::Null), "{paid}");
    assert_eq!((&paid["effective_date"], &paid["due_date"]), (&json!(today()), &json!("2099-12-10")));

    let disbursement_id: Uuid = paid["disbursement_id"].as_str().unwrap().parse().unwrap();
    let mut same = command(disbursement_id, loan_id, 1200, today());
    same.disbursement.due_date = Some("2099-12-10".parse().unwrap());
    send(&client, &same).await;
    send(&client, &same).await;
    // Messages about a loan are handled in order, so this one is handled after both.
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(301)).await).await["status"],
        "refused"
    );
    let postings = client.postings(loan_id, "posting.escrow.v1").await;
    assert_eq!(postings.len(), 1);
    assert_eq!(postings[0]["event_id"], paid["event_id"]);
    assert_eq!(postings[0]["correlation_id"], format!("escrow:{disbursement_id}"));
    let line = |side: &str| postings[0]["lines"].as_array().unwrap().iter().find(|line| line["side"] == side).unwrap();
    assert_eq!((&line("debit")["account"], &line("credit")["account"]), (&json!("escrow_liability"), &json!("cash")));
    let account = escrow(&client, loan_id).await;
    assert_eq!(account["balance_minor"], "300");
    assert_eq!(account["disbursements"][1], paid);
    assert_eq!(published(fixture, "escrow.disbursed.v1").await, 1);
    assert_eq!(fixture.count_audit_entries("acme", "escrow_requested").await, 2);
    assert_eq!(fixture.count_audit_entries("acme", "escrow_disbursed").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disbursement_that_escrow_does_not_cover_is_refused_permanently() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = loan(&client, 0).await;
    deposit_escrow(&client, loan_id, days_ago(10), 1000).await;
    let refused = wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(1001)).await).await;
    assert_eq!((&refused["status"], &refused["event_id"]), (&json!("refused"), &Value::Null));
    assert_eq!(refused["reason"], "escrow holds 1000 and may go down to 0: 1001 cannot be paid out of it");
    deposit_escrow(&client, loan_id, days_ago(10), 1000).await;
    let disbursement_id = refused["disbursement_id"].as_str().unwrap().parse().unwrap();
    send(&client, &command(disbursement_id, loan_id, 1001, today())).await;
    wait_until_idle(&fixture).await;
    assert!(client.postings(loan_id, "posting.escrow.v1").await.is_empty(), "a refusal is not reconsidered");
    assert_eq!(published(&fixture, "escrow.refused.v1").await, 1);
    assert_eq!(published(&fixture, "escrow.disbursed.v1").await, 0);
    assert_eq!(fixture.count_audit_entries("acme", "escrow_refused").await, 1);
    assert_eq!(fixture.count("onceward.dead_letters").await, 0);
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(2000)).await).await["status"],
        "disbursed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_disbursements_of_the_same_money_one_is_refused() {
    let mut fixture = LendingFixture::without_consumers(Settings::default(), None).await;
    let (mut second, stop) = fixture.platform.another_instance();
    fixture.platform.run_consumers();
    second.run_consumers();
    let client = fixture.client("acme");
    let loan_id = loan(&client, 0).await;
    for round in 1..=5 {
        deposit_escrow(&client, loan_id, days_ago(10), 1000).await;
        let body = tax(1000);
        let both =
            tokio::join!(request_disbursement(&client, loan_id, &body), request_disbursement(&client, loan_id, &body));
        let both = [wait_until_settled(&client, &both.0).await, wait_until_settled(&client, &both.1).await];
        let mut statuses = both.map(|one| one["status"].as_str().unwrap().to_owned());
        statuses.sort();
        assert_eq!(statuses, ["disbursed", "refused"], "round {round}");
        assert_eq!(escrow(&client, loan_id).await["balance_minor"], "0");
    }
    stop.cancel();
    assert!(second.finished().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lender_advances_escrow_up_to_the_products_limit() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = loan(&client, 700).await;
    deposit_escrow(&client, loan_id, days_ago(10), 1000).await;
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(1701)).await).await["status"],
        "refused"
    );
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(1700)).await).await["status"],
        "disbursed"
    );
    assert_eq!(escrow(&client, loan_id).await["balance_minor"], "-700");

    let charge_off = json!({"action": "charge_off", "reason": "gone"});
    assert_eq!(client.change(loan_id, charge_off).await["status"], "charged_off");
    deposit_escrow(&client, loan_id, today(), 750).await;
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(51)).await).await["status"],
        "refused",
        "no money is advanced"
    );
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(50)).await).await["status"],
        "disbursed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backdated_disbursement_must_have_been_covered_ever_since() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = loan(&client, 0).await;
    deposit_escrow(&client, loan_id, days_ago(20), 1000).await;
    let on = |day: Date, amount| {
        let mut body = tax(amount);
        body["effective_date"] = json!(day);
        body
    };
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &on(days_ago(15), 900)).await).await["status"],
        "disbursed"
    );
    deposit_escrow(&client, loan_id, days_ago(5), 1000).await;
    let cases = [
        (days_ago(18), 101, "refused"),
        (days_ago(4), 1101, "refused"),
        (days_ago(4), 1050, "disbursed"),
        (today(), 50, "disbursed"),
    ];
    for (day, amount, expected) in cases {
        let found = wait_until_settled(&client, &request_disbursement(&client, loan_id, &on(day, amount)).await).await;
        assert_eq!(found["status"], expected, "{amount} on {day}: {found}");
    }
    let early = wait_until_settled(&client, &request_disbursement(&client, loan_id, &on(days_ago(31), 1)).await).await;
    assert!(early["reason"].as_str().unwrap().contains("was funded on"), "{early}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_that_is_not_funded_or_is_closed_disburses_nothing() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    client.product("home", json!({"escrow": {"monthly_minor": "500", "advance_limit_minor": "5000"}})).await;
    let loan_id = client.loan("home", json!({})).await;
    let refused = wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(10)).await).await;
    assert!(refused["reason"].as_str().unwrap().contains("not funded"), "{refused}");
    assert_eq!(client.change(loan_id, json!({"action": "close"})).await["status"], "closed");
    assert_eq!(
        wait_until_settled(&client, &request_disbursement(&client, loan_id, &tax(10)).await).await["status"],
        "refused"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_without_a_request_is_executed_and_its_id_is_used_once() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = loan(&client, 0).await;
    deposit_escrow(&client, loan_id, days_ago(10), 1000).await;
    let disbursement_id = Uuid::now_v7();
    send(&client, &command(disbursement_id, loan_id, 600, today())).await;
    send(&client, &command(disbursement_id, loan_id, 400, today())).await;
    send(&client, &command(Uuid::now_v7(), loan_id, 400, today().saturating_add(1.day()))).await;
    send(&client, &command(Uuid::now_v7(), Uuid::now_v7(), 1, today())).await;
    wait_until_idle(&fixture).await;
    assert_eq!(escrow(&client, loan_id).await["balance_minor"], "400");
    let found = escrow(&client, loan_id).await["disbursements"].as_array().unwrap().clone();
    let statuses: Vec<&Value> = found.iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, ["refused", "disbursed"], "the latest first: tomorrow cannot be paid today");
    let sql = "SELECT string_agg(last_error, ' / ' ORDER BY id) FROM onceward.dead_letters";
    let dead: String = fixture.query_value(sql, &[]).await;
    assert!(dead.contains("already exists with different data") && dead.contains("there is no loan"), "{dead}");
    let page = client.get(&format!("/api/loans/{loan_id}/escrow?limit=1")).await.with_status(200);
    let after = page["next"].as_str().expect("there is another page");
    let rest = client.get(&format!("/api/loans/{loan_id}/escrow?limit=1&after={after}")).await.with_status(200);
    assert_eq!((&rest["disbursements"][0], &rest["next"]), (&found[1], &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_request_names_its_field_and_writes_nothing() {
    let fixture = LendingFixture::start().await;
    let client = fixture.client("acme");
    let loan_id = loan(&client, 0).await;
    let cases = [
        ("/amount_minor", json!({"amount_minor": "0"})),
        ("/amount_minor", json!({"amount_minor": "-5"})),
        ("/amount_minor", json!({"amount_minor": 5})),
        ("/purpose", json!({"purpose": "holiday"})),
        ("/effective_date", json!({"effective_date": today().saturating_add(1.day())})),
        ("/payee/name", json!({"payee": {"name": "", "reference": ""}})),
    ];
    for (field, differs) in cases {
        let mut body = tax(100);
        body.as_object_mut().unwrap().extend(differs.as_object().unwrap().clone());
        let response = request_disbursement(&client, loan_id, &body).await;
        assert_eq!((response.status, response.wrong_fields()), (422, vec![field]), "{differs}");
    }
    let path = format!("/api/loans/{loan_id}/escrow/disbursements");
    client.post_without_key(&path, &tax(1)).await.with_status(400);
    let missing = request_disbursement(&client, Uuid::now_v7(), &tax(1)).await;
    assert_eq!(missing.status, 404);
    client.get(&format!("{path}/{}", Uuid::now_v7())).await.with_status(404);
    assert_eq!(fixture.count("lending.escrow_disbursement").await, 0);
    assert_eq!(published(&fixture, EscrowDisburse::TYPE).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenant_cannot_see_disbursements() {
    let fixture = LendingFixture::start().await;
    let (client, other) = (fixture.client("acme"), fixture.client("globex"));
    let loan_id = loan(&client, 0).await;
    deposit_escrow(&client, loan_id, days_ago(10), 1000).await;
    let accepted = request_disbursement(&client, loan_id, &tax(10)).await;
    wait_until_settled(&client, &accepted).await;
    other.get(accepted.header("location").unwrap()).await.with_status(404);
    other.get(&format!("/api/loans/{loan_id}/escrow")).await.with_status(404);
    request_disbursement(&other, loan_id, &tax(10)).await.with_status(404);
}
