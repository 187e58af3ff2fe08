//! Mail is requested and sent the same way on every bus.

use crate::support::{CrmFixture, TENANT, settings};
use onceward::broker::BusKind;
use onceward_testkit::{Bus, Scratch, TestPlatform, left_out};

async fn mails_are_sent_over(kind: BusKind) {
    let (bus, folder) = (Bus::shared(kind), Scratch::new());
    let service = onceward_crm::service(settings(&folder));
    let platform = TestPlatform::on_bus(vec![service], bus.url.as_deref()).await;
    let mut fixture = CrmFixture::on_platform(platform, folder).await;
    fixture.platform.run_consumers();
    fixture.create_template(TENANT, "notice", "transactional").await;
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(fixture.request_mail("notice", &format!("borrower-{number}@example.org")).await);
    }
    for id in &ids {
        fixture.wait_for_status(id, "sent").await;
    }
    assert_eq!(fixture.mails_in_folder().len(), ids.len());
    assert_eq!(fixture.count_messages("crm.email.sent.v1").await, 10);
}

#[tokio::test]
async fn mails_are_sent_over_rabbitmq() {
    if !left_out("rabbitmq") {
        mails_are_sent_over(BusKind::RabbitMq).await;
    }
}

#[tokio::test]
async fn mails_are_sent_over_redis() {
    if !left_out("redis") {
        mails_are_sent_over(BusKind::Redis).await;
    }
}

#[tokio::test]
async fn mails_are_sent_over_kafka() {
    if !left_out("kafka") {
        mails_are_sent_over(BusKind::Kafka).await;
    }
}
