//! A run that is interrupted at any point and repeated has the same result.

use crate::support::{LegacyFixture, expected_minor, mapping, old_program, without_pauses};
use onceward_adoption::{AdoptionOptions, run};
use onceward_testkit::eventually;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const LEGACY_ROWS: &str = "
    INSERT INTO borrowers (name) SELECT 'borrower ' || n FROM generate_series(1, 50) AS n;
    INSERT INTO loans (borrower_id, amount, rate, term)
        SELECT 1 + n % 50, CASE n % 7 WHEN 0 THEN n * 1.1 WHEN 1 THEN n / 3.0 ELSE n + 0.25 END, 7.5, 12
        FROM generate_series(1, 3000) AS n;
    INSERT INTO payments (loan_id, amount) SELECT n, CASE n % 5 WHEN 0 THEN n / 7.0 ELSE n - 0.01 END
        FROM generate_series(1, 3100) AS n;
    INSERT INTO outbox (topic, payload) SELECT 'loan.touched', json_build_object('n', n) FROM generate_series(1, 300) AS n;
    INSERT INTO outbox (topic, payload) VALUES ('loan.touched', '[]')";

const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'onceward adopt' AND datname = current_database()";

#[tokio::test]
async fn repeatedly_killed_runs_have_the_same_result_as_one_complete_run() {
    let (killed, complete) = (LegacyFixture::new().await, LegacyFixture::new().await);
    for legacy in [&killed, &complete] {
        legacy.execute(LEGACY_ROWS).await;
    }
    complete.run().await;
    let options = AdoptionOptions { batch: 25, pause: Duration::from_millis(1), ..AdoptionOptions::default() };
    // Killed whenever there is progress: steps, batches or messages.
    let done =
        "SELECT CASE WHEN to_regclass('adoption.progress') IS NULL THEN 0 ELSE (xpath('/row/c/text()', query_to_xml(
        'SELECT (SELECT count(*) FROM adoption.step) + (SELECT coalesce(sum(last_id), 0) FROM adoption.progress)
              + (SELECT count(*) FROM adoption.handed_over) AS c', false, true, '')))[1]::text::bigint END";
    let mut killed_in_time = 0;
    for round in 0_i64..12 {
        let before: i64 = killed.query_value(done, &[]).await;
        let (config, options) = (killed.platform.database().config(), options.clone());
        let running = tokio::spawn(async move { run(&config, &mapping(), &options, |_| {}).await });
        eventually("there is progress", || async {
            let now: i64 = killed.query_value(done, &[]).await;
            (now > before + round * 60 || running.is_finished()).then_some(())
        })
        .await;
        if round % 2 == 0 {
            running.abort();
        } else {
            // During a statement, as if the server had crashed.
            killed.query_value::<Option<i64>>(TERMINATE, &[]).await;
        }
        killed_in_time += i32::from(!matches!(running.await, Ok(Ok(_))));
    }
    assert!(killed_in_time > 0, "every run ended before it was killed: add more rows");
    killed.try_run(&without_pauses()).await.expect("the last run succeeds");
    let state = "SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
        SELECT concat_ws('/', 'loan', id, tenant_id, amount, amount_minor) AS line FROM loans
        UNION ALL SELECT concat_ws('/', 'payment', id, tenant_id, amount, amount_minor) FROM payments
        UNION ALL SELECT concat_ws('/', 'finding', table_name, row_id, column_name, value, reason) FROM adoption.finding
        UNION ALL SELECT concat_ws('/', 'outbox', id, published_at IS NULL) FROM outbox) AS everything";
    assert_eq!(killed.query_value::<String>(state, &[]).await, complete.query_value::<String>(state, &[]).await);
    let messages = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'loan.touched.v1'";
    assert_eq!(killed.query_value::<i64>(messages, &[]).await, 300);
    let missing = "SELECT count(*) FROM adoption.finding WHERE column_name = 'loan_id'";
    assert_eq!(killed.query_value::<i64>(missing, &[]).await, 100);
}

#[tokio::test]
async fn writes_of_the_old_program_during_the_run_are_not_lost() {
    let legacy = LegacyFixture::new().await;
    legacy.execute(LEGACY_ROWS).await;
    let over = AtomicBool::new(false);
    let client = old_program(legacy.platform.database()).await;
    let writing = async {
        let mut n = 0_i32;
        let mut inserted = Vec::new();
        while !over.load(Ordering::Relaxed) {
            n += 1;
            let amount = f64::from(n) * 1.1;
            let row = client
                .query_one("INSERT INTO payments (loan_id, amount) VALUES (1, $1) RETURNING id", &[&amount])
                .await;
            inserted.push((row.expect("an insert").get::<_, i32>(0), amount));
            // A row before, in or after the current batch of the backfill.
            let id = n * 37 % 3000 + 1;
            let moved =
                client.execute("UPDATE loans SET amount = $2 WHERE id = $1", &[&id, &(f64::from(n) + 0.5)]).await;
            assert_eq!(moved.expect("an update"), 1);
        }
        inserted
    };
    let adopting = async {
        let options = AdoptionOptions { batch: 20, pause: Duration::from_millis(2), ..AdoptionOptions::default() };
        legacy.try_run(&options).await.expect("the adoption succeeds");
        over.store(true, Ordering::Relaxed);
    };
    let (inserted, ()) = tokio::join!(writing, adopting);
    assert!(inserted.len() > 50, "only {} writes happened during the adoption", inserted.len());
    for (id, amount) in inserted {
        let row = client
            .query_one("SELECT amount, amount_minor FROM payments WHERE id = $1", &[&id])
            .await
            .expect("the row exists");
        assert_eq!((row.get::<_, f64>(0), row.get::<_, Option<i64>>(1)), (amount, expected_minor(amount, true)));
    }
    let verified = onceward_adoption::verify(&legacy.platform.database().config()).await.expect("it can be compared");
    assert_eq!(verified.differences, []);
}
