//! Routing and snapshots.

use onceward_topology::{Exchange, ExchangeKind, Queue, Topology, UnknownExchange};

use crate::payments;

#[test]
fn a_message_reaches_each_queue_once_in_a_stable_order() {
    let topology = Topology::new()
        .exchange(Exchange::topic("e"))
        .bind("e", "a.#", "z")
        .bind("e", "a.*", "z")
        .bind("e", "#", "b")
        .bind("e", "x", "never");
    assert_eq!(topology.route("e", "a.b").unwrap(), ["b", "z"]);
    assert_eq!(topology.route("e", "").unwrap(), ["b"]);
}

#[test]
fn a_direct_exchange_routes_a_literal_hash() {
    let topology = payments();
    assert_eq!(topology.route("payments.dlq", "#").unwrap(), ["q.payments.dlq"]);
    assert!(topology.route("payments.dlq", "received.v1").unwrap().is_empty());
}

#[test]
fn an_unknown_exchange_is_an_error_and_not_an_empty_list() {
    let error = payments().route("payments.event", "x").unwrap_err();
    assert_eq!(error, UnknownExchange { exchange: "payments.event".into() });
    assert!(error.to_string().contains("\"payments.event\""));
}

#[test]
fn the_snapshot_does_not_depend_on_the_order_of_declaration() {
    let mut shuffled = payments();
    shuffled.exchanges.reverse();
    shuffled.queues.reverse();
    shuffled.bindings.reverse();
    assert_eq!(shuffled.snapshot(), payments().snapshot());
    assert_ne!(shuffled.snapshot(), Topology::new().snapshot());
}

#[test]
fn the_snapshot_parses_to_the_same_topology() {
    let read: Topology = serde_json::from_str(&payments().snapshot()).unwrap();
    assert_eq!(read, payments().normalized());
}

#[test]
fn the_snapshot_is_readable() {
    let topology = Topology::new()
        .exchange(Exchange::fanout("news"))
        .queue(Queue::work("q").shards(4).max_priority(9))
        .bind("news", "", "q");
    let expected = r#"{
  "exchanges": [
    {
      "name": "news",
      "kind": "fanout"
    }
  ],
  "queues": [
    {
      "name": "q",
      "kind": "work",
      "max_priority": 9,
      "shards": 4
    }
  ],
  "bindings": [
    {
      "exchange": "news",
      "queue": "q",
      "pattern": ""
    }
  ]
}
"#;
    assert_eq!(topology.snapshot(), expected);
    assert_eq!(ExchangeKind::Fanout.to_string(), "fanout");
}

#[test]
fn a_queue_has_eight_lanes_by_default() {
    let read: Queue = serde_json::from_str(r#"{"name":"q"}"#).unwrap();
    assert_eq!(read, Queue::work("q"));
    assert_eq!(read.shards, 8);
    assert!(serde_json::from_str::<Queue>(r#"{"name":"q","shard":4}"#).is_err());
}
