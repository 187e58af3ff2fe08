//! Money that waits until something is due.

use crate::payments_support::*;
use crate::support::Office;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_pays_what_is_due_when_somebody_asks() {
    let office = Office::open().await;
    let desk = office.desk("acme");
    let loan_id = funded_loan(&desk, 35, json!({"prepayment": "hold"})).await;
    let first_due = 5;
    office.serve_day("acme", days_ago(9)).await;
    let early = posted(&desk, &mock_on(loan_id, "early", 15_000, days_ago(9))).await;
    let held: i64 =
        applied(&early["posting"]).iter().filter(|(bucket, _)| bucket == "future").map(|(_, held)| held).sum();
    assert!(held > 10_000, "{early}");
    office.serve_day("acme", days_ago(first_due - 1)).await;
    let before = (balance(&desk, loan_id, "loan_principal").await, balance(&desk, loan_id, "cash").await);

    let ask = json!({"loan_id": loan_id, "effective_date": days_ago(first_due - 1)});
    desk.post("/api/payments/allocate", &ask).await.with_status(202);
    quiet(&office).await;
    let events = desk.postings(loan_id, "posting.allocation.v1").await;
    assert_eq!(events.len(), 1);
    assert_eq!(balance(&desk, loan_id, "cash").await, before.1, "no new money");
    let paid = held - balance(&desk, loan_id, "suspense").await;
    assert!(paid > 0);
    assert!(balance(&desk, loan_id, "loan_principal").await < before.0, "the instalment's principal is paid");
    assert_eq!(balance(&desk, loan_id, "interest_receivable").await, 0);
    assert_eq!(published(&office, "payment.allocated.v1").await, 1);

    // Nothing more is due, so asking again moves nothing.
    desk.post("/api/payments/allocate", &ask).await.with_status(202);
    quiet(&office).await;
    assert_eq!(desk.postings(loan_id, "posting.allocation.v1").await.len(), 1);
    desk.post("/api/payments/allocate", &json!({"loan_id": uuid::Uuid::now_v7()})).await.with_status(404);

    // A payment that comes late is divided before it, and what was applied is applied anew.
    posted(&desk, &mock_on(loan_id, "late", 300, days_ago(8))).await;
    quiet(&office).await;
    assert_eq!(balance(&desk, loan_id, "cash").await, before.1 + 300);
    books_are_right(&office).await;
}
