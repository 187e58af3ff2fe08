//! No amount is rounded: it is exact or it is listed.

use crate::support::{LegacyFixture, expected_minor};
use onceward_adoption::MIGRATIONS;
use onceward_testkit::TestDb;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

#[tokio::test]
async fn amounts_without_an_exact_value_are_listed_and_stay_unchanged() {
    let legacy = LegacyFixture::new().await;
    legacy
        .execute(
            "INSERT INTO borrowers (name) VALUES ('Ada');
             INSERT INTO loans (borrower_id, amount) VALUES (1, 1234.56), (1, 10.005), (1, 'NaN'), (1, 'Infinity'), (1, 1e20),
                 (1, -5), (1, 0.1::float8 + 0.2::float8), (1, 0.3), (1, NULL), (1, 70368744177663.99), (1, 70368744177664),
                 (1, 100), (1, 0.1), (1, '-0');
             INSERT INTO payments (loan_id, amount) VALUES (1, -5), (1, '-Infinity'), (777, 1.10)",
        )
        .await;
    let before: Vec<String> = texts(&legacy, "SELECT amount::text FROM loans ORDER BY id").await;
    assert_eq!(legacy.run().await, 9);
    assert_eq!(
        legacy.findings().await,
        [
            "loans 2 amount 10.005: more than two decimals",
            "loans 3 amount NaN: not a number",
            "loans 4 amount Infinity: infinite",
            "loans 5 amount 1e+20: too large for a float to represent hundredths",
            "loans 6 amount -5: negative",
            "loans 7 amount 0.30000000000000004: more than two decimals",
            "loans 11 amount 70368744177664: too large for a float to represent hundredths",
            "payments 2 amount -Infinity: infinite",
            "payments 3 loan_id 777: refers to a row that does not exist",
        ]
    );
    assert_eq!(texts(&legacy, "SELECT amount::text FROM loans ORDER BY id").await, before);
    let minor = "SELECT coalesce(amount_minor::text, '-') FROM loans ORDER BY id";
    let expected = ["123456", "-", "-", "-", "-", "-", "-", "30", "-", "7036874417766399", "-", "10000", "10", "0"];
    assert_eq!(texts(&legacy, minor).await, expected);
    assert_eq!(legacy.query_value::<i64>("SELECT amount_minor FROM payments WHERE id = 1", &[]).await, -500);
}

#[tokio::test]
async fn both_columns_stay_in_step_whichever_is_written() {
    let legacy = LegacyFixture::new().await;
    legacy.run().await;
    legacy
        .execute("INSERT INTO loans (amount) VALUES (19.99), (10.005); UPDATE loans SET amount = 20.01 WHERE id = 1")
        .await;
    let both = "SELECT concat_ws('/', amount, amount_minor) FROM loans ORDER BY id";
    assert_eq!(texts(&legacy, both).await, ["20.01/2001", "10.005"]);
    assert_eq!(legacy.findings().await, ["loans 2 amount 10.005: more than two decimals"]);
    // The new program writes the new column only.
    legacy
        .execute("UPDATE loans SET amount_minor = 7 WHERE id = 1; INSERT INTO loans (amount_minor) VALUES (123456)")
        .await;
    // A listed amount is corrected.
    legacy.execute("UPDATE loans SET amount = 10.01 WHERE id = 2").await;
    assert_eq!(texts(&legacy, both).await, ["0.07/7", "10.01/1001", "1234.56/123456"]);
    assert_eq!(legacy.findings().await, Vec::<String>::new());
    legacy.execute("INSERT INTO loans (amount) VALUES ('NaN'); DELETE FROM loans WHERE amount = 'NaN'").await;
    assert_eq!(legacy.findings().await, Vec::<String>::new());
    let refused = legacy.client.batch_execute("UPDATE loans SET amount_minor = 9007199254740993 WHERE id = 1").await;
    assert!(refused.is_err(), "the old column cannot hold it");
}

#[tokio::test]
async fn no_float_is_rounded_silently() {
    let database = TestDb::empty().await;
    onceward::db::migrate::migrate(&database.config(), &[MIGRATIONS]).await.expect("the schema is created");
    let client = database.owner().await;
    let cents = (-100_000_000_i64..100_000_000).prop_map(|cents| cents as f64 / 100.0);
    let money = (0_i64..9_007_199_254_740_992).prop_map(|cents| cents as f64 / 100.0);
    let sums = proptest::collection::vec(0_i64..100_000, 1..5)
        .prop_map(|cents| cents.into_iter().map(|cents| cents as f64 / 100.0).sum::<f64>());
    let any = prop_oneof![any::<f64>(), cents, money, sums, -1e15..1e15_f64];
    let mut runner = TestRunner::deterministic();
    let amounts: Vec<f64> = (0..20_000).map(|_| any.new_tree(&mut runner).expect("a float").current()).collect();
    for below_zero in [true, false] {
        let sql = "SELECT adoption.to_minor(amount, $2), adoption.unfit(amount, $2) FROM unnest($1::float8[])
                   WITH ORDINALITY AS given (amount, place) ORDER BY place";
        let rows = client.query(sql, &[&amounts, &below_zero]).await.expect("the functions accept every float");
        for (amount, row) in amounts.iter().zip(&rows) {
            let (minor, reason): (Option<i64>, Option<String>) = (row.get(0), row.get(1));
            assert_eq!(minor, expected_minor(*amount, below_zero), "{amount}");
            assert_eq!(minor.is_none(), reason.is_some(), "{amount} is exact or has a reason");
        }
        let exact = rows.iter().filter(|row| row.get::<_, Option<i64>>(0).is_some()).count();
        assert!(exact > 5_000, "only {exact} amounts were exact: too few to test the property");
    }
}

async fn texts(legacy: &LegacyFixture, sql: &str) -> Vec<String> {
    let rows = legacy.client.query(sql, &[]).await.expect("a query");
    rows.iter().map(|row| row.get::<_, Option<String>>(0).unwrap_or_default()).collect()
}
