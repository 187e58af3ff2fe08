//! Many views of a few pages become one row per page and tenant.

use onceward::outbox;
use onceward_example_recipes::batch_totals::{self, PageViewed};
use onceward_testkit::{TestPlatform, eventually};

#[tokio::test]
async fn views_of_each_tenant_are_counted_exactly() {
    let mut platform = TestPlatform::new(vec![batch_totals::service()]).await;
    for (tenant, views) in [("acme", 300), ("globex", 30)] {
        let mut tx = platform.db().begin(platform.scope(tenant)).await.unwrap();
        for view in 0..views {
            outbox::publish(&mut tx, &PageViewed { page: format!("/p{}", view % 3) }).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    platform.run_consumers();

    let client = platform.database().owner().await;
    let totals = "SELECT tenant_id || page, views FROM totals.page_views ORDER BY 1";
    let expected: Vec<(String, i64)> = [("acme", 100), ("globex", 10)]
        .into_iter()
        .flat_map(|(tenant, views)| (0..3).map(move |page| (format!("{tenant}/p{page}"), views)))
        .collect();
    eventually("all views are counted", || async {
        let rows = client.query(totals, &[]).await.unwrap();
        let counted: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        (counted == expected).then_some(())
    })
    .await;
}
