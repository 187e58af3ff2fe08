//! A tick becomes one message per tenant, however many processes run the schedule.

use onceward_example_recipes::nightly_report;
use onceward_testkit::{TestPlatform, eventually};

#[tokio::test]
async fn every_tenant_gets_one_report_per_tick() {
    let mut platform = TestPlatform::new(vec![nightly_report::service("* * * * * *")]).await;
    let client = platform.database().owner().await;
    client.batch_execute("INSERT INTO onceward.tenant (id) VALUES ('acme'), ('globex')").await.unwrap();
    platform.run_consumers();
    let (mut first, stop_first) = platform.another_instance();
    let (mut second, stop_second) = platform.another_instance();
    first.run_schedules();
    second.run_schedules();

    let reports = "SELECT tenant_id, count(*), count(DISTINCT due_at) FROM reports.nightly GROUP BY 1 ORDER BY 1";
    let rows = eventually("both tenants have two reports", || async {
        let rows = client.query(reports, &[]).await.unwrap();
        (rows.len() == 2 && rows.iter().all(|row| row.get::<_, i64>(1) >= 2)).then_some(rows)
    });
    for row in rows.await {
        assert_eq!(row.get::<_, i64>(1), row.get::<_, i64>(2));
    }
    stop_first.cancel();
    stop_second.cancel();
}
