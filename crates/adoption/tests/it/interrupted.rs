//! Ended at any point and run again, it comes to the same.

use crate::support::{Legacy, expected_minor, old_program, quick, shape};
use onceward_adoption::{Options, run};
use onceward_testkit::eventually;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const FILL: &str = "
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
async fn a_run_that_is_killed_again_and_again_comes_to_the_same_result() {
    let (killed, whole) = (Legacy::new().await, Legacy::new().await);
    for legacy in [&killed, &whole] {
        legacy.do_sql(FILL).await;
    }
    whole.run().await;
    let options = Options { batch: 25, pause: Duration::from_millis(1), ..Options::default() };
    // Killed whenever something more is done: steps, batches, messages.
    let done =
        "SELECT CASE WHEN to_regclass('adoption.progress') IS NULL THEN 0 ELSE (xpath('/row/c/text()', query_to_xml(
        'SELECT (SELECT count(*) FROM adoption.step) + (SELECT coalesce(sum(last_id), 0) FROM adoption.progress)
              + (SELECT count(*) FROM adoption.handed_over) AS c', false, true, '')))[1]::text::bigint END";
    let mut killed_in_time = 0;
    for round in 0_i64..12 {
        let before: i64 = killed.ask(done, &[]).await;
        let (config, options) = (killed.platform.database().config(), options.clone());
        let running = tokio::spawn(async move { run(&config, &shape(), &options, |_| {}).await });
        eventually("something more is done", || async {
            let now: i64 = killed.ask(done, &[]).await;
            (now > before + round * 60 || running.is_finished()).then_some(())
        })
        .await;
        if round % 2 == 0 {
            running.abort();
        } else {
            // In the middle of a statement, as a crash of the server would.
            killed.ask::<Option<i64>>(TERMINATE, &[]).await;
        }
        killed_in_time += i32::from(!matches!(running.await, Ok(Ok(_))));
    }
    assert!(killed_in_time > 0, "every run was over before it was killed: give it more to do");
    killed.try_run(&quick()).await.expect("the last run goes through");
    let state = "SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
        SELECT concat_ws('/', 'loan', id, tenant_id, amount, amount_minor) AS line FROM loans
        UNION ALL SELECT concat_ws('/', 'payment', id, tenant_id, amount, amount_minor) FROM payments
        UNION ALL SELECT concat_ws('/', 'finding', table_name, row_id, column_name, value, reason) FROM adoption.finding
        UNION ALL SELECT concat_ws('/', 'outbox', id, published_at IS NULL) FROM outbox) AS everything";
    assert_eq!(killed.ask::<String>(state, &[]).await, whole.ask::<String>(state, &[]).await);
    let messages = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'loan.touched.v1'";
    assert_eq!(killed.ask::<i64>(messages, &[]).await, 300);
    let missing = "SELECT count(*) FROM adoption.finding WHERE column_name = 'loan_id'";
    assert_eq!(killed.ask::<i64>(missing, &[]).await, 100);
}

#[tokio::test]
async fn what_the_old_program_writes_meanwhile_is_not_lost() {
    let legacy = Legacy::new().await;
    legacy.do_sql(FILL).await;
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
            // Somewhere ahead of the backfill, behind it, or in the middle of it.
            let id = n * 37 % 3000 + 1;
            let moved =
                client.execute("UPDATE loans SET amount = $2 WHERE id = $1", &[&id, &(f64::from(n) + 0.5)]).await;
            assert_eq!(moved.expect("an update"), 1);
        }
        inserted
    };
    let adopting = async {
        let options = Options { batch: 20, pause: Duration::from_millis(2), ..Options::default() };
        legacy.try_run(&options).await.expect("the adoption goes through");
        over.store(true, Ordering::Relaxed);
    };
    let (inserted, ()) = tokio::join!(writing, adopting);
    assert!(inserted.len() > 50, "only {} writes met the adoption", inserted.len());
    for (id, amount) in inserted {
        let row = client
            .query_one("SELECT amount, amount_minor FROM payments WHERE id = $1", &[&id])
            .await
            .expect("it is there");
        assert_eq!((row.get::<_, f64>(0), row.get::<_, Option<i64>>(1)), (amount, expected_minor(amount, true)));
    }
    let verified = onceward_adoption::verify(&legacy.platform.database().config()).await.expect("it can be compared");
    assert_eq!(verified.differences, []);
}
