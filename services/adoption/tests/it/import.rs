//! Borrowers and loans are imported into lending.

use crate::support::{LegacyFixture, TENANT, without_pauses};
use onceward_adoption::{AdoptionOptions, LendingImport, RateUnit, verify};
use onceward_testkit::eventually;

const POLICY: &str =
    r#"{"code": "legacy", "currency": "USD", "annual_rate": "0.075", "day_count": "30/360", "term_months": 12}"#;

#[tokio::test]
async fn loans_with_the_products_terms_are_imported_and_the_others_are_listed() {
    let mut legacy = LegacyFixture::new().await;
    let token = legacy.platform.token(TENANT);
    let url = legacy.platform.serve_http().await;
    legacy
        .execute(
            "INSERT INTO borrowers (name, email) VALUES ('Ada', 'ada@example.org'), ('', NULL), ('Grace', NULL);
             INSERT INTO loans (borrower_id, amount, rate, term, status, created_at) VALUES
                 (1, 1200.50, 7.5, 12, 'active', '2024-01-31'), (3, 99, 7.5, 12, 'active', '2024-02-01'),
                 (1, 10.005, 7.5, 12, 'active', '2024-01-31'), (1, 500, 8, 12, 'active', '2024-01-31'),
                 (1, 500, 7.5, 24, 'active', '2024-01-31'), (1, 500, 7.5, 12, 'paid', '2024-01-31'),
                 (2, 500, 7.5, 12, 'active', '2024-01-31'), (1, 500, 'NaN', 12, 'active', '2024-01-31')",
        )
        .await;
    let options = AdoptionOptions {
        import: Some(LendingImport { product: "legacy".into(), rate_unit: RateUnit::Percent }),
        ..without_pauses()
    };
    let refused = legacy.try_run(&options).await.expect_err("there is no product");
    assert!(refused.to_string().contains("no product legacy"), "{refused}");
    let created = reqwest::Client::new()
        .post(format!("{url}/api/products"))
        .bearer_auth(token)
        .header("idempotency-key", "product")
        .header("content-type", "application/json")
        .body(POLICY)
        .send()
        .await
        .expect("a response");
    assert_eq!(created.status().as_u16(), 201);
    for _ in 0..2 {
        assert_eq!(legacy.try_run(&options).await.expect("the run succeeds"), 8);
    }
    let waiting = verify(&legacy.platform.database().config()).await.expect("it can be compared");
    assert_eq!(waiting.differences.len(), 2, "{waiting:?}");
    assert!(waiting.differences[0].description.contains("not created by lending yet"));
    legacy.platform.run_consumers();
    eventually("lending creates the loans", || async {
        (legacy.query_value::<i64>("SELECT count(*) FROM lending.loan", &[]).await == 2).then_some(())
    })
    .await;
    let loans = "SELECT string_agg(concat_ws(' ', b.external_ref, l.principal_minor, l.currency, l.start_date, l.status), ', '
                 ORDER BY b.external_ref) FROM lending.loan l JOIN lending.borrower_entities b USING (tenant_id, borrower_entity_id)";
    let expected = "legacy:1 120050 USD 2024-01-31 created, legacy:3 9900 USD 2024-02-01 created";
    assert_eq!(legacy.query_value::<String>(loans, &[]).await, expected);
    let verified = verify(&legacy.platform.database().config()).await.expect("it can be compared");
    assert_eq!(verified.differences, []);
    assert_eq!(
        legacy.findings().await,
        [
            "borrowers 2 name has no name, which lending requires",
            "loans 3 amount 10.005: more than two decimals",
            "loans 3 product not imported into lending: it has no exact positive amount",
            "loans 4 product rate 8, term 12: not imported into lending: product legacy has different terms",
            "loans 5 product rate 7.5, term 24: not imported into lending: product legacy has different terms",
            "loans 6 product paid: not imported into lending: it is not active",
            "loans 7 product not imported into lending: its borrower was not imported",
            "loans 8 product rate NaN, term 12: not imported into lending: product legacy has different terms",
        ]
    );
    let audited = "SELECT count(*) FROM audit.entry WHERE event_type IN ('borrower_created', 'loan_created')";
    assert_eq!(legacy.query_value::<i64>(audited, &[]).await, 4);
    assert_eq!(legacy.query_value::<i64>("SELECT count(*) FROM lending.borrower_entities", &[]).await, 2);
}
