//! Figures in mails are figures that lending published.

use crate::support::{CrmFixture, TENANT};
use onceward_testkit::eventually;
use serde_json::{Value, json};
use uuid::Uuid;

async fn publish(fixture: &CrmFixture, topic: &str, event_type: &str, payload: &Value) {
    let sql = "SELECT onceward.enqueue($1, $2, $3, $4, p_ordering_key => $5)";
    let loan = payload["loan"]["loan_id"].as_str().or(payload["loan_id"].as_str()).expect("a loan");
    fixture.owner.execute(sql, &[&TENANT, &topic, &event_type, payload, &loan]).await.expect("it is published");
}

fn balances(principal: &str) -> Value {
    json!({
        "principal_minor": principal, "interest_receivable_minor": "0", "escrow_liability_minor": "0",
        "fees_receivable_minor": "1500", "cash_minor": "0",
    })
}

#[tokio::test]
async fn a_mail_about_a_loan_shows_the_balance_and_the_payment_that_lending_published() {
    let mut fixture = CrmFixture::start().await;
    fixture.platform.run_consumers();
    let (loan_id, payment_id) = (Uuid::now_v7(), Uuid::now_v7());
    let loan = json!({ "loan_id": loan_id, "currency": "USD", "status": "active", "principal_minor": "1000000" });
    publish(&fixture, "ls.events:tenant.acme.loan.created", "loan.created.v1", &json!({ "loan": loan })).await;
    let posted = json!({
        "payment_id": payment_id, "loan_id": loan_id, "event_id": Uuid::now_v7(), "effective_date": "2026-11-02",
        "applied": [{ "bucket": "interest_current", "amount_minor": "346" }, { "bucket": "principal", "amount_minor": "12000" }],
        "new_balances": balances("988000"),
    });
    publish(&fixture, "payments.events:payment.posted.v1", "payment.posted.v1", &posted).await;
    let snapshot = "SELECT count(*) FROM crm.loan_snapshot WHERE last_payment IS NOT NULL";
    eventually("the facts are known", || async { (fixture.query::<i64>(snapshot, &[]).await == 1).then_some(()) })
        .await;
    let returned = json!({
        "payment_id": payment_id, "loan_id": loan_id, "event_id": Uuid::now_v7(), "reversal_id": Uuid::now_v7(),
        "effective_date": "2026-11-02", "returned_on": "2026-11-04", "amount_minor": "12346", "reason": "R01",
        "new_balances": balances("1000000"),
    });
    publish(&fixture, "payments.events:payment.returned.v1", "payment.returned.v1", &returned).await;
    eventually("the return is known", || async {
        let sql = "SELECT balances ->> 'principal_minor' FROM crm.loan_snapshot";
        (fixture.query::<String>(sql, &[]).await == "1000000").then_some(())
    })
    .await;
    let source = json!({
        "subject": "About your loan",
        "text": "You paid {{ payment.amount }} on {{ payment.date }}. You owe {{ loan.principal_balance }}.",
        "variables": [
            { "name": "payment.amount", "kind": "money" }, { "name": "payment.date", "kind": "date" },
            { "name": "loan.principal_balance", "kind": "money" },
        ],
    });
    let template = json!({ "template_id": "balance", "class": "transactional", "source": source });
    fixture.post(TENANT, "templates", template).await.with_status(201);
    let path = format!("loans/{loan_id}/send-email");
    let request = json!({ "template_id": "balance", "to": ["ada@example.org"] });
    let accepted = fixture.post(TENANT, &path, request.clone()).await.with_status(202);
    fixture.wait_for_status(accepted["email_id"].as_str().expect("an id"), "sent").await;
    let mail = &fixture.mails_in_folder()[0];
    for figure in ["123.46", "10,000.00", "2026"] {
        assert!(mail.contains(figure), "{figure} is missing in {mail}");
    }
    let unknown = format!("loans/{}/send-email", Uuid::now_v7());
    let refused = fixture.post(TENANT, &unknown, request).await;
    assert_eq!(refused.status, 422, "nothing is known about that loan: {}", refused.text);
    assert_eq!(fixture.count_dead_letters().await, 0);
}
