//! Tenants never see each other's data, even if they share ids.

use crate::support::{AcceptedLoan, LendingFixture};
use serde_json::json;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_may_use_the_same_loan_id_and_key() {
    let fixture = LendingFixture::start().await;
    let loan_id = Uuid::now_v7();
    for (tenant, principal) in [("acme", "10000"), ("globex", "30000")] {
        let client = fixture.client(tenant);
        client.product("home", json!({})).await;
        let body = client.application("home", json!({"loan_id": loan_id, "principal_minor": principal})).await;
        assert_eq!(client.post_as("k1", "/api/loans", &body).await.loan_id(), loan_id);
        assert_eq!(client.wait_until_settled(loan_id).await["state"], "done");
        let status = client.change(loan_id, json!({"action": "activate", "funded_on": "2024-01-01"})).await;
        assert_eq!(status["status"], "active", "{status}");
    }
    for (tenant, principal) in [("acme", "10000"), ("globex", "30000")] {
        let client = fixture.client(tenant);
        assert_eq!(client.balances(loan_id).await["loan_principal_minor"], principal);
        assert_eq!(fixture.count_audit_entries(tenant, "loan_created").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenants_loan_borrower_and_product_are_not_found() {
    let fixture = LendingFixture::start().await;
    let acme = fixture.client("acme");
    acme.product("home", json!({})).await;
    let loan_id = acme.loan("home", json!({})).await;
    let borrower = acme.borrower().await;
    let stranger = fixture.client("globex");
    for path in ["", "/status", "/schedule", "/ledger", "/payoff"] {
        stranger.get(&format!("/api/loans/{loan_id}{path}")).await.with_status(404);
    }
    stranger.get(&format!("/api/borrowers/{borrower}")).await.with_status(404);
    stranger.get("/api/products/home").await.with_status(404);
    stranger.patch(&format!("/api/loans/{loan_id}"), &json!({"action": "close"})).await.with_status(404);
    assert_eq!(stranger.get("/api/loans").await.with_status(200)["loans"], json!([]));

    // A borrower of another tenant does not exist for this one.
    stranger.product("home", json!({})).await;
    let body = stranger.application("home", json!({"borrower_entity_id": borrower})).await;
    let refused = stranger.post("/api/loans", &body).await.loan_id();
    assert_eq!(stranger.wait_until_settled(refused).await["status"], "refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_compatibility_view_shows_only_the_tenants_borrowers() {
    let fixture = LendingFixture::start().await;
    let (acme, globex) = (fixture.client("acme"), fixture.client("globex"));
    let own = acme.borrower().await;
    globex.borrower().await;
    globex.borrower().await;
    let tx = acme.begin().await;
    let rows = tx.query("SELECT borrower_entity_id, display_name FROM lending.borrowers", &[]).await.unwrap();
    let seen: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(seen, [own]);
    tx.rollback().await.unwrap();
    assert_eq!(fixture.count("lending.borrowers").await, 3, "the owner sees all");
}
