//! Every difference is found.

use crate::support::LegacyFixture;
use onceward_adoption::verify;

#[tokio::test]
async fn every_difference_is_listed() {
    let legacy = LegacyFixture::new().await;
    let config = legacy.platform.database().config();
    assert!(verify(&config).await.expect_err("nothing is adopted").to_string().contains("adopt run"));
    legacy
        .execute(
            "INSERT INTO borrowers (name) VALUES ('Ada');
             INSERT INTO loans (borrower_id, amount) VALUES (1, 10), (1, 20.5), (1, 30);
             INSERT INTO payments (loan_id, amount) VALUES (1, 0.1), (1, 0.2)",
        )
        .await;
    legacy.run().await;
    let report = verify(&config).await.expect("it can be compared");
    assert!(report.is_complete(), "{report:?}");
    assert!(
        report.summary.iter().any(|line| line.contains("sum to 6050 before and 6050 after")),
        "{:?}",
        report.summary
    );
    // Changes that bypass the triggers.
    legacy
        .execute(
            "SET session_replication_role = replica;
             UPDATE loans SET amount_minor = 1001 WHERE id = 1;
             UPDATE loans SET amount_minor = NULL WHERE id = 2;
             INSERT INTO payments (loan_id, amount) VALUES (42, 0.3);
             INSERT INTO outbox (topic, payload) VALUES ('a.b', '{}');
             INSERT INTO adoption.finding VALUES ('loans', 3, 'amount', '30', 'made up');
             SET session_replication_role = origin",
        )
        .await;
    let report = verify(&config).await.expect("it can be compared");
    let listed: Vec<String> = report
        .differences
        .iter()
        .map(|one| {
            format!("{}{}: {}", one.table, one.id.map(|id| format!(" {id}")).unwrap_or_default(), one.description)
        })
        .collect();
    assert_eq!(
        listed,
        [
            "loans: the exact amounts sum to 4000 before and 4001 after",
            "loans 1: amount 10 does not equal amount_minor 1001",
            "loans 2: amount 20.5 is neither migrated nor listed",
            "loans 3: listed with amount 30, but has 30",
            "payments: of 3 amounts, 2 are exact and 0 are listed",
            "payments 3: amount 0.3 is neither migrated nor listed",
            "payments 3: loan_id 42 refers to a row that does not exist",
            "outbox: 1 messages are neither published nor listed",
        ]
    );
    assert!(!report.is_complete());
}
