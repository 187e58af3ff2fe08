//! Loans and payments on RabbitMQ, as others on the broker see them.

use crate::plug::{loans::open_loans, outsider::Outsider, till::Till};
use jiff::{Timestamp, tz::TimeZone};
use onceward::{Exchange, Queue, Topology, transport::BusKind};
use onceward_lending::{Settings, service};
use onceward_testkit::{Bus, TestPlatform, eventually, left_out, leftovers, rabbitmq_url};
use reqwest::Method;
use serde_json::{Value, json};

const ACME: usize = 0;

/// Lending on RabbitMQ, with everything running.
async fn lending() -> (TestPlatform, Bus) {
    let url = tokio::task::spawn_blocking(rabbitmq_url).await.expect("a broker");
    let mut platform = TestPlatform::on_bus(vec![service(Settings::default())], Some(&url)).await;
    platform.run_relay();
    platform.run_consumers();
    let namespace = platform.config().bus.namespace.clone();
    let bus = Bus { kind: BusKind::RabbitMq, url: Some(url), namespace };
    let broker = platform.broker();
    eventually("the topology is declared", || async { broker.check().await.ok().filter(Vec::is_empty) }).await;
    broker.close().await;
    (platform, bus)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_posting_is_told_once_and_a_duplicate_tells_nothing() {
    if left_out("rabbitmq") {
        return;
    }
    let (mut platform, bus) = lending().await;
    let outsider = Outsider::start(&bus, "payment.*.*").await;
    let till = Till::at(platform.serve_http().await);
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let loan_id = open_loans(&till, today, 1).await[0];
    let pay = async |name: &str, amount: &str| {
        let body = json!({"txn_id": name, "loan_id": loan_id, "amount_minor": amount, "effective_date": today});
        till.send(Method::POST, ACME, "/payments/intake/mock", name, &body).await
    };
    let seen = async |postings: usize| {
        eventually("the posting is told", || async { (outsider.known() >= postings).then_some(()) }).await;
    };

    let first = pay("t-1", "12000").await;
    assert_eq!(first.status, 201, "{}", first.body);
    seen(1).await;
    let again = pay("t-1", "12000").await;
    let known = json!({
        "status": "duplicate", "payment_id": first.body["payment_id"], "idempotency_key": first.body["idempotency_key"]
    });
    assert_eq!((again.status, &again.body), (200, &known));
    // What the loan is paid next comes after whatever the duplicate may have set off.
    assert_eq!(pay("t-2", "700").await.status, 201);
    seen(2).await;
    let owner = platform.database().owner().await;
    eventually("everything is through", || async { leftovers(&owner).await.is_empty().then_some(()) }).await;

    let notes = outsider.finish().await;
    let amounts: Vec<i64> = notes.postings.values().map(|posting| posting.amount).collect();
    assert_eq!((notes.arrivals, notes.postings.len(), amounts.iter().sum::<i64>()), (2, 2, 12_700));
    let ledger = till.get(ACME, &format!("/api/loans/{loan_id}/ledger?limit=500")).await.body;
    let payments: Vec<&Value> = ledger["events"]
        .as_array()
        .expect("a history")
        .iter()
        .filter(|event| event["schema"] == "posting.payment.v1")
        .collect();
    assert_eq!(payments.len(), 2, "{ledger}");
    assert_eq!(ledger["balances"]["cash_minor"], "12700");
    let received = "SELECT count(*) FROM onceward.outbox_messages WHERE event_type = 'payment.received.v1'";
    assert_eq!(owner.query_one(received, &[]).await.expect("a count").get::<_, i64>(0), 2);
    assert!(platform.stop().await.0, "it ends in time");
}

/// Queue, exchange, pattern, as the specification lists them.
const QUEUES: [(&str, &str, &str); 8] = [
    ("loan.create.v1", "ls.commands", "tenant.*.loan.create"),
    ("loan.update.v1", "ls.commands", "tenant.*.loan.update"),
    ("payment.process.v1", "ls.commands", "tenant.*.payment.process"),
    ("payment.allocate.v1", "ls.commands", "tenant.*.payment.allocate"),
    ("escrow.disburse.v1", "ls.commands", "tenant.*.escrow.disburse"),
    ("etl.schedule.v1", "ls.schedules", "tenant.*.etl.schedule"),
    ("etl.job.v1", "ls.commands", "tenant.*.etl.job"),
    ("status.update.v1", "ls.events", "tenant.*.status.#"),
];

fn specified(dead: &str) -> Topology {
    let topology = Topology::new()
        .exchange(Exchange::topic("ls.commands"))
        .exchange(Exchange::topic("ls.events"))
        .exchange(Exchange::topic("ls.schedules"))
        .exchange(Exchange::fanout("ls.dlq"))
        .queue(Queue::dead_letter_store("ls.dlq.v1"));
    QUEUES.iter().fold(topology, |topology, (queue, _, _)| topology.queue(Queue::work(*queue).dead_letter(dead)))
}

/// The dead letters' own queue has nowhere to send them on to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_broker_has_the_queues_of_loans_with_the_arguments_of_the_specification() {
    if left_out("rabbitmq") {
        return;
    }
    let (platform, bus) = lending().await;
    let declared = platform.platform().topology();
    for (queue, exchange, pattern) in QUEUES {
        let bound =
            declared.bindings.iter().any(|it| (&*it.queue, &*it.exchange, &*it.pattern) == (queue, exchange, pattern));
        assert!(bound, "{queue} is not bound to {exchange} by {pattern}");
    }
    let asking = bus.broker(&specified("ls.dlq"));
    assert_eq!(asking.check().await.expect("the broker answers"), []);
    asking.close().await;
    let asking = bus.broker(&specified("ls.events"));
    let differing = asking.check().await.expect("the broker answers");
    assert_eq!(differing.len(), QUEUES.len(), "it says what it has: {differing:?}");
    asking.close().await;
    assert!(platform.stop().await.0, "it ends in time");
}
