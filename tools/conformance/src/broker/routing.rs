//! Routing of messages to queues. Everything is published twice, one round after the other under one ordering key, so
//! that an unexpected message shows before the second round is over.

use super::{BrokerHarness, declaring::simple_topology, fixture::BrokerFixture};
use onceward_topology::{Exchange, Queue, Topology};

/// Publishes these keys to `exchange`, and checks that each queue receives those listed for it.
async fn check(
    harness: &dyn BrokerHarness,
    topology: Topology,
    exchange: &str,
    keys: &[&str],
    expected: &[(&str, &[&str])],
) {
    let fixture = BrokerFixture::declared(harness, topology).await;
    let twice = || keys.iter().chain(keys);
    fixture.send(twice().map(|key| fixture.parcel(exchange, key, "key", key.to_string())).collect()).await;
    for (queue, keys) in expected {
        let wanted: Vec<&str> = keys.iter().chain(*keys).copied().collect();
        let arrived = fixture.reader(queue).await.bodies(wanted.len()).await;
        assert_eq!(arrived, wanted, "queue {queue}");
    }
}

fn with_queues(exchange: Exchange, bindings: &[(&str, &str)]) -> Topology {
    let name = exchange.name.clone();
    let mut topology = Topology::new().exchange(exchange);
    for (pattern, queue) in bindings {
        if topology.find_queue(queue).is_none() {
            topology = topology.queue(Queue::work(*queue));
        }
        topology = topology.bind(&name, *pattern, *queue);
    }
    topology
}

pub async fn a_topic_exchange_routes_by_pattern(harness: &dyn BrokerHarness) {
    let bindings = [
        ("#", "all"),
        ("order.*.placed", "one-word"),
        ("order.#", "beginning"),
        ("#.placed", "ending"),
        ("order.acme.placed", "exact"),
        ("*.#.placed", "mixed"),
    ];
    let keys = [
        "order.acme.placed",
        "order.acme.eu.placed",
        "order.placed",
        "order",
        "placed",
        "stock.acme.placed",
        "order.ACME.placed",
        "orders.acme.placed",
        "order.acme.placed.twice",
        "order.größe.placed",
    ];
    let expected: &[(&str, &[&str])] = &[
        ("all", &keys),
        ("one-word", &["order.acme.placed", "order.ACME.placed", "order.größe.placed"]),
        (
            "beginning",
            &[
                "order.acme.placed",
                "order.acme.eu.placed",
                "order.placed",
                "order",
                "order.ACME.placed",
                "order.acme.placed.twice",
                "order.größe.placed",
            ],
        ),
        (
            "ending",
            &[
                "order.acme.placed",
                "order.acme.eu.placed",
                "order.placed",
                "placed",
                "stock.acme.placed",
                "order.ACME.placed",
                "orders.acme.placed",
                "order.größe.placed",
            ],
        ),
        ("exact", &["order.acme.placed"]),
        (
            "mixed",
            &[
                "order.acme.placed",
                "order.acme.eu.placed",
                "order.placed",
                "stock.acme.placed",
                "order.ACME.placed",
                "orders.acme.placed",
                "order.größe.placed",
            ],
        ),
    ];
    check(harness, with_queues(Exchange::topic("events"), &bindings), "events", &keys, expected).await;
}

/// On a direct exchange, `*` and `#` are ordinary characters.
pub async fn a_direct_exchange_routes_by_equality(harness: &dyn BrokerHarness) {
    let bindings =
        [("reserve", "reserve"), ("release", "release"), ("release", "both"), ("reserve", "both"), ("#", "hash")];
    let keys = ["reserve", "release", "reserve.all", "#", "*", "Reserve", "reserve"];
    let expected: &[(&str, &[&str])] = &[
        ("reserve", &["reserve", "reserve"]),
        ("release", &["release"]),
        ("both", &["reserve", "release", "reserve"]),
        ("hash", &["#"]),
    ];
    check(harness, with_queues(Exchange::direct("commands"), &bindings), "commands", &keys, expected).await;
}

/// A fanout exchange ignores the key and the pattern.
pub async fn a_fanout_exchange_routes_to_every_queue(harness: &dyn BrokerHarness) {
    let bindings = [("", "one"), ("ignored", "two"), ("#", "three")];
    let keys = ["a", "", "b.c", "*"];
    let expected: &[(&str, &[&str])] = &[("one", &keys), ("two", &keys), ("three", &keys)];
    check(harness, with_queues(Exchange::fanout("news"), &bindings), "news", &keys, expected).await;
}

pub async fn a_queue_bound_twice_gets_a_message_once(harness: &dyn BrokerHarness) {
    let bindings = [("order.#", "work"), ("#.placed", "work"), ("*.*", "work")];
    let keys = ["order.placed", "order", "placed", "a.b", "order.acme.placed"];
    check(harness, with_queues(Exchange::topic("events"), &bindings), "events", &keys, &[("work", &keys)]).await;
}

pub async fn a_queue_bound_to_two_exchanges_gets_the_messages_of_both(harness: &dyn BrokerHarness) {
    let topology = simple_topology().exchange(Exchange::fanout("news")).bind("news", "", "work");
    let fixture = BrokerFixture::declared(harness, topology).await;
    let parcels = (0..20).map(|n| {
        let exchange = if n % 2 == 0 { "events" } else { "news" };
        fixture.parcel(exchange, "a", exchange, format!("{exchange}-{n}"))
    });
    fixture.send(parcels.collect()).await;
    let arrived = fixture.reader("work").await.bodies(20).await;
    for (exchange, first) in [("events", 0), ("news", 1)] {
        let of_exchange: Vec<&String> = arrived.iter().filter(|body| body.starts_with(exchange)).collect();
        let wanted: Vec<String> = (first..20).step_by(2).map(|n| format!("{exchange}-{n}")).collect();
        assert_eq!(of_exchange, wanted.iter().collect::<Vec<_>>());
    }
}

pub async fn a_routing_key_matches_only_bindings_of_its_exchange(harness: &dyn BrokerHarness) {
    let topology =
        simple_topology().exchange(Exchange::topic("other")).queue(Queue::work("others")).bind("other", "#", "others");
    let fixture = BrokerFixture::declared(harness, topology).await;
    for round in ["1", "2"] {
        let parcels =
            ["events", "other"].map(|exchange| fixture.parcel(exchange, "a", "key", format!("{exchange} {round}")));
        fixture.send(parcels.to_vec()).await;
    }
    assert_eq!(fixture.reader("work").await.bodies(2).await, ["events 1", "events 2"]);
    assert_eq!(fixture.reader("others").await.bodies(2).await, ["other 1", "other 2"]);
}
