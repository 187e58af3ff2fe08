//! Two tenants with the same loans, keys and transactions never see each other's data.

use crate::payments_support::*;
use crate::support::{ApiClient, LendingFixture};
use serde_json::json;
use uuid::Uuid;

async fn loan(client: &ApiClient<'_>, loan_id: Uuid) {
    client.product("home", json!({"annual_rate": "0.12", "term_months": 12})).await;
    let differs = json!({"loan_id": loan_id, "principal_minor": "120000", "start_date": days_ago(31)});
    assert_eq!(client.active_loan("home", differs).await, loan_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_loan_id_key_and_transaction_are_two_payments_of_two_tenants() {
    let fixture = LendingFixture::start().await;
    let (acme, globex) = (fixture.client("acme"), fixture.client("globex"));
    let loan_id = Uuid::now_v7();
    loan(&acme, loan_id).await;
    loan(&globex, loan_id).await;
    let body = mock_payment_on(loan_id, "txn-1", 900, today());
    let (ours, theirs) = (submit_and_post(&acme, &body).await, submit_and_post(&globex, &body).await);
    assert_ne!(ours["payment_id"], theirs["payment_id"]);
    assert_eq!(ours["intake"]["idempotency_key"], theirs["intake"]["idempotency_key"]);
    submit(&acme, &body).await.with_status(200);
    for client in [&acme, &globex] {
        assert_eq!(balance(client, loan_id, "cash").await, 900);
        assert_eq!(client.postings(loan_id, "posting.payment.v1").await.len(), 1);
    }
    let (our_id, their_id) = (id(&ours["payment_id"]), id(&theirs["payment_id"]));
    acme.get(&format!("/api/payments/{their_id}")).await.with_status(404);
    acme.post(&format!("/api/payments/{their_id}/return"), &json!({"reason": "R01"})).await.with_status(404);
    let messages = payment(&acme, our_id).await["messages"].as_array().unwrap().len();
    assert_eq!(messages, 3, "the other tenant's messages have the same correlation id and are not shown");

    // A conflict, a return and a backdated payment of one tenant do not affect the other.
    submit(&acme, &mock_payment_on(loan_id, "txn-1", 901, today())).await.with_status(409);
    assert_eq!(globex.get("/api/payments/conflicts").await.with_status(200)["conflicts"], json!([]));
    submit_and_post(&acme, &mock_payment_on(loan_id, "txn-2", 100, days_ago(4))).await;
    acme.post(&format!("/api/payments/{our_id}/return"), &json!({"reason": "R01"})).await.with_status(202);
    wait_for_status(&acme, our_id, "returned").await;
    wait_until_idle(&fixture).await;
    assert_eq!(balance(&acme, loan_id, "cash").await, 100);
    assert_eq!(balance(&globex, loan_id, "cash").await, 900);
    assert_eq!(payment(&globex, their_id).await["status"], "posted");
    assert_books_balance(&fixture).await;
}
