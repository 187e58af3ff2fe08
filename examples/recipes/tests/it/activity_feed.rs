//! Messages of any type are collected as they are.

use onceward_example_recipes::activity_feed;
use onceward_testkit::{TestPlatform, eventually};

#[tokio::test]
async fn messages_of_unknown_types_are_collected() {
    let mut platform = TestPlatform::new(vec![activity_feed::service()]).await;
    let client = platform.database().owner().await;
    for kind in ["invoice.issued.v1", "parcel.lost.v7"] {
        let enqueue = "SELECT onceward.enqueue('acme', 'shop.events:tenant.acme.anything', $1, '{\"n\": 1}')";
        client.execute(enqueue, &[&kind]).await.unwrap();
    }
    platform.run_consumers();
    let types = eventually("both are collected", || async {
        let rows = client.query("SELECT event_type FROM feed.activity ORDER BY 1", &[]).await.unwrap();
        (rows.len() == 2).then(|| rows.iter().map(|row| row.get(0)).collect::<Vec<String>>())
    });
    assert_eq!(types.await, ["invoice.issued.v1", "parcel.lost.v7"]);
}
