//! Every difference is found.

use crate::support::Legacy;
use onceward_adoption::verify;

#[tokio::test]
async fn what_is_not_as_it_has_to_be_is_named() {
    let legacy = Legacy::new().await;
    let config = legacy.platform.database().config();
    assert!(verify(&config).await.expect_err("nothing is adopted").to_string().contains("adopt run"));
    legacy
        .do_sql(
            "INSERT INTO borrowers (name) VALUES ('Ada');
             INSERT INTO loans (borrower_id, amount) VALUES (1, 10), (1, 20.5), (1, 30);
             INSERT INTO payments (loan_id, amount) VALUES (1, 0.1), (1, 0.2)",
        )
        .await;
    legacy.run().await;
    let fine = verify(&config).await.expect("it can be compared");
    assert!(fine.is_complete(), "{fine:?}");
    assert!(fine.told.iter().any(|line| line.contains("sum up to 6050 before and 6050 after")), "{:?}", fine.told);
    // As somebody could who goes round the triggers.
    legacy
        .do_sql(
            "SET session_replication_role = replica;
             UPDATE loans SET amount_minor = 1001 WHERE id = 1;
             UPDATE loans SET amount_minor = NULL WHERE id = 2;
             INSERT INTO payments (loan_id, amount) VALUES (42, 0.3);
             INSERT INTO outbox (topic, payload) VALUES ('a.b', '{}');
             INSERT INTO adoption.finding VALUES ('loans', 3, 'amount', '30', 'made up');
             SET session_replication_role = origin",
        )
        .await;
    let verified = verify(&config).await.expect("it can be compared");
    let named: Vec<String> = verified
        .differences
        .iter()
        .map(|one| format!("{}{}: {}", one.table, one.id.map(|id| format!(" {id}")).unwrap_or_default(), one.what))
        .collect();
    assert_eq!(
        named,
        [
            "loans: the exact amounts sum up to 4000 before and 4001 after",
            "loans 1: amount 10 is not amount_minor 1001",
            "loans 2: amount 20.5 is not brought over",
            "loans 3: is listed with 30, but has 30",
            "payments: 3 amounts are 2 exact and 0 listed ones",
            "payments 3: amount 0.3 is not brought over",
            "payments 3: loan_id 42 refers to a row that is not there",
            "outbox: 1 messages are not published and not listed",
        ]
    );
    assert!(!verified.is_complete());
}
