//! Paying out of escrow: once, and only what the policy allows.

use crate::payments_support::{days_ago, published, quiet, today};
use crate::support::{Answer, Desk, Office};
use jiff::ToSpan;
use jiff::civil::Date;
use onceward::{Event, NewMessage, TenantId, outbox};
use onceward_ledger::{Account, credit, debit};
use onceward_lending::{
    Settings,
    escrow::{Payee, Purpose, Request, events::EscrowDisburse},
    loans::postings,
};
use onceward_money::Minor;
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

/// A loan that was funded thirty days ago, by a product that advances up to `advance`.
async fn loan(desk: &Desk<'_>, advance: i64) -> Uuid {
    let code = format!("e-{}", Uuid::now_v7().simple());
    let escrow = json!({"monthly_minor": "500", "advance_limit_minor": advance.to_string()});
    desk.product(&code, json!({"escrow": escrow, "term_months": 12})).await;
    desk.active_loan(&code, json!({"start_date": days_ago(30)})).await
}

async fn set_aside(desk: &Desk<'_>, loan_id: Uuid, day: Date, amount: i64) {
    let lines = vec![
        debit(Account::Cash, Minor::new(amount), "received"),
        credit(Account::EscrowLiability, Minor::new(amount), "escrow collected"),
    ];
    desk.post_lines(loan_id, day, postings::PAYMENT, lines).await;
}

fn tax(amount: i64) -> Value {
    json!({"payee": {"name": "County", "reference": "12-345"}, "amount_minor": amount.to_string(), "purpose": "tax"})
}

async fn ask(desk: &Desk<'_>, loan_id: Uuid, body: &Value) -> Answer {
    desk.post(&format!("/api/loans/{loan_id}/escrow/disbursements"), body).await
}

/// The disbursement that was accepted, once it is settled.
async fn settled(desk: &Desk<'_>, accepted: &Answer) -> Value {
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let location = accepted.header("location").expect("a 202 says where to look").to_owned();
    eventually("the disbursement is settled", || async {
        let found = desk.get(&location).await.with_status(200);
        (found["status"] != "requested").then_some(found)
    })
    .await
}

async fn escrow(desk: &Desk<'_>, loan_id: Uuid) -> Value {
    desk.get(&format!("/api/loans/{loan_id}/escrow")).await.with_status(200)
}

/// The command as it would come from elsewhere, under a key of its own.
async fn send(desk: &Desk<'_>, command: &EscrowDisburse) {
    let tenant = TenantId::new(&desk.tenant).unwrap();
    let mut tx = desk.begin().await;
    let message = NewMessage::from_event(command, &tenant).unwrap().once_per(Uuid::now_v7().to_string());
    outbox::send(&mut tx, message).await.unwrap();
    tx.commit().await.unwrap();
}

fn command(disbursement_id: Uuid, loan_id: Uuid, amount: i64, day: Date) -> EscrowDisburse {
    let disbursement = Request {
        payee: Payee { name: "County".into(), reference: "12-345".into() },
        amount_minor: Minor::new(amount),
        purpose: Purpose::Tax,
        effective_date: day,
        due_date: None,
    };
    EscrowDisburse { disbursement_id, loan_id, disbursement }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disbursement_is_paid_once_and_told_of() {
    let office = Office::open().await;
    paid_once(&office).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disbursement_is_paid_once_over_rabbitmq() {
    if !onceward_testkit::left_out("rabbitmq") {
        let office = Office::open_on(Some(&onceward_testkit::rabbitmq_url())).await;
        paid_once(&office).await;
    }
}

async fn paid_once(office: &Office) {
    let desk = office.desk("acme");
    let loan_id = loan(&desk, 0).await;
    set_aside(&desk, loan_id, days_ago(10), 1500).await;
    let path = format!("/api/loans/{loan_id}/escrow/disbursements");
    let mut body = tax(1200);
    body["due_date"] = json!("2099-12-10");
    let first = desk.post_as("tax-2026", &path, &body).await;
    let paid = settled(&desk, &first).await;
    let again = desk.post_as("tax-2026", &path, &body).await;
    assert_eq!((again.status, &again.body), (202, &first.body));
    assert_eq!((&paid["status"], &paid["reason"]), (&json!("disbursed"), &Value::Null), "{paid}");
    assert_eq!((&paid["effective_date"], &paid["due_date"]), (&json!(today()), &json!("2099-12-10")));

    let disbursement_id: Uuid = paid["disbursement_id"].as_str().unwrap().parse().unwrap();
    let mut same = command(disbursement_id, loan_id, 1200, today());
    same.disbursement.due_date = Some("2099-12-10".parse().unwrap());
    send(&desk, &same).await;
    send(&desk, &same).await;
    // Messages about a loan are handled in order, so this one's turn comes after both.
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &tax(301)).await).await["status"], "refused");
    let postings = desk.postings(loan_id, "posting.escrow.v1").await;
    assert_eq!(postings.len(), 1);
    assert_eq!(postings[0]["event_id"], paid["event_id"]);
    assert_eq!(postings[0]["correlation_id"], format!("escrow:{disbursement_id}"));
    let line = |side: &str| postings[0]["lines"].as_array().unwrap().iter().find(|line| line["side"] == side).unwrap();
    assert_eq!((&line("debit")["account"], &line("credit")["account"]), (&json!("escrow_liability"), &json!("cash")));
    let account = escrow(&desk, loan_id).await;
    assert_eq!(account["balance_minor"], "300");
    assert_eq!(account["disbursements"][1], paid);
    assert_eq!(published(office, "escrow.disbursed.v1").await, 1);
    assert_eq!(office.audited("acme", "escrow_requested").await, 2);
    assert_eq!(office.audited("acme", "escrow_disbursed").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_escrow_does_not_cover_is_refused_for_good() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = loan(&desk, 0).await;
    set_aside(&desk, loan_id, days_ago(10), 1000).await;
    let refused = settled(&desk, &ask(&desk, loan_id, &tax(1001)).await).await;
    assert_eq!((&refused["status"], &refused["event_id"]), (&json!("refused"), &Value::Null));
    assert_eq!(refused["reason"], "escrow holds 1000 and may go down to 0: 1001 cannot be paid out of it");
    set_aside(&desk, loan_id, days_ago(10), 1000).await;
    let disbursement_id = refused["disbursement_id"].as_str().unwrap().parse().unwrap();
    send(&desk, &command(disbursement_id, loan_id, 1001, today())).await;
    quiet(&office).await;
    assert!(desk.postings(loan_id, "posting.escrow.v1").await.is_empty(), "a refusal is not looked at again");
    assert_eq!(published(&office, "escrow.refused.v1").await, 1);
    assert_eq!(published(&office, "escrow.disbursed.v1").await, 0);
    assert_eq!(office.audited("acme", "escrow_refused").await, 1);
    assert_eq!(office.count("onceward.dead_letters").await, 0);
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &tax(2000)).await).await["status"], "disbursed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_want_the_same_money_one_is_refused() {
    let mut office = Office::without_consumers(Settings::default(), None).await;
    let (mut second, stop) = office.platform.another_instance();
    office.platform.run_consumers();
    second.run_consumers();
    let desk = office.desk("acme");
    let loan_id = loan(&desk, 0).await;
    for round in 1..=5 {
        set_aside(&desk, loan_id, days_ago(10), 1000).await;
        let body = tax(1000);
        let both = tokio::join!(ask(&desk, loan_id, &body), ask(&desk, loan_id, &body));
        let both = [settled(&desk, &both.0).await, settled(&desk, &both.1).await];
        let mut statuses = both.map(|one| one["status"].as_str().unwrap().to_owned());
        statuses.sort();
        assert_eq!(statuses, ["disbursed", "refused"], "round {round}");
        assert_eq!(escrow(&desk, loan_id).await["balance_minor"], "0");
    }
    stop.cancel();
    assert!(second.finished().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lender_advances_as_far_as_the_product_says() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = loan(&desk, 700).await;
    set_aside(&desk, loan_id, days_ago(10), 1000).await;
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &tax(1701)).await).await["status"], "refused");
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &tax(1700)).await).await["status"], "disbursed");
    assert_eq!(escrow(&desk, loan_id).await["balance_minor"], "-700");

    let given_up = json!({"action": "charge_off", "reason": "gone"});
    assert_eq!(desk.change(loan_id, given_up).await["status"], "charged_off");
    set_aside(&desk, loan_id, today(), 750).await;
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &tax(51)).await).await["status"], "refused", "nothing is advanced");
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &tax(50)).await).await["status"], "disbursed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_backdated_must_have_been_there_all_the_time_since() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = loan(&desk, 0).await;
    set_aside(&desk, loan_id, days_ago(20), 1000).await;
    let on = |day: Date, amount| {
        let mut body = tax(amount);
        body["effective_date"] = json!(day);
        body
    };
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &on(days_ago(15), 900)).await).await["status"], "disbursed");
    set_aside(&desk, loan_id, days_ago(5), 1000).await;
    let cases = [
        (days_ago(18), 101, "refused"),
        (days_ago(4), 1101, "refused"),
        (days_ago(4), 1050, "disbursed"),
        (today(), 50, "disbursed"),
    ];
    for (day, amount, expected) in cases {
        let found = settled(&desk, &ask(&desk, loan_id, &on(day, amount)).await).await;
        assert_eq!(found["status"], expected, "{amount} on {day}: {found}");
    }
    let early = settled(&desk, &ask(&desk, loan_id, &on(days_ago(31), 1)).await).await;
    assert!(early["reason"].as_str().unwrap().contains("was funded on"), "{early}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loan_that_is_not_funded_or_closed_pays_nothing_out() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    desk.product("home", json!({"escrow": {"monthly_minor": "500", "advance_limit_minor": "5000"}})).await;
    let loan_id = desk.loan("home", json!({})).await;
    let refused = settled(&desk, &ask(&desk, loan_id, &tax(10)).await).await;
    assert!(refused["reason"].as_str().unwrap().contains("not funded"), "{refused}");
    assert_eq!(desk.change(loan_id, json!({"action": "close"})).await["status"], "closed");
    assert_eq!(settled(&desk, &ask(&desk, loan_id, &tax(10)).await).await["status"], "refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_alone_is_enough_and_its_id_is_for_one_thing() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = loan(&desk, 0).await;
    set_aside(&desk, loan_id, days_ago(10), 1000).await;
    let disbursement_id = Uuid::now_v7();
    send(&desk, &command(disbursement_id, loan_id, 600, today())).await;
    send(&desk, &command(disbursement_id, loan_id, 400, today())).await;
    send(&desk, &command(Uuid::now_v7(), loan_id, 400, today().saturating_add(1.day()))).await;
    send(&desk, &command(Uuid::now_v7(), Uuid::now_v7(), 1, today())).await;
    quiet(&office).await;
    assert_eq!(escrow(&desk, loan_id).await["balance_minor"], "400");
    let found = escrow(&desk, loan_id).await["disbursements"].as_array().unwrap().clone();
    let statuses: Vec<&Value> = found.iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, ["refused", "disbursed"], "the latest first: tomorrow cannot be paid today");
    let sql = "SELECT string_agg(last_error, ' / ' ORDER BY id) FROM onceward.dead_letters";
    let dead: String = office.ask(sql, &[]).await;
    assert!(dead.contains("is something else") && dead.contains("there is no loan"), "{dead}");
    let page = desk.get(&format!("/api/loans/{loan_id}/escrow?limit=1")).await.with_status(200);
    let after = page["next"].as_str().expect("there is another page");
    let rest = desk.get(&format!("/api/loans/{loan_id}/escrow?limit=1&after={after}")).await.with_status(200);
    assert_eq!((&rest["disbursements"][0], &rest["next"]), (&found[1], &Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_are_told_by_their_field_and_leave_nothing() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = loan(&desk, 0).await;
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
        let answer = ask(&desk, loan_id, &body).await;
        assert_eq!((answer.status, answer.wrong_fields()), (422, vec![field]), "{differs}");
    }
    let path = format!("/api/loans/{loan_id}/escrow/disbursements");
    desk.post_without_key(&path, &tax(1)).await.with_status(400);
    let missing = ask(&desk, Uuid::now_v7(), &tax(1)).await;
    assert_eq!(missing.status, 404);
    desk.get(&format!("{path}/{}", Uuid::now_v7())).await.with_status(404);
    assert_eq!(office.count("lending.escrow_disbursement").await, 0);
    assert_eq!(published(&office, EscrowDisburse::TYPE).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenant_sees_nothing_of_it() {
    let office = Office::open().await;
    let (desk, other) = (office.desk("acme"), office.desk("globex"));
    let loan_id = loan(&desk, 0).await;
    set_aside(&desk, loan_id, days_ago(10), 1000).await;
    let accepted = ask(&desk, loan_id, &tax(10)).await;
    settled(&desk, &accepted).await;
    other.get(accepted.header("location").unwrap()).await.with_status(404);
    other.get(&format!("/api/loans/{loan_id}/escrow")).await.with_status(404);
    ask(&other, loan_id, &tax(10)).await.with_status(404);
}
