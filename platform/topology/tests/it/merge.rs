//! Merging the topologies of several services.

use onceward_topology::{Exchange, Queue, Topology};

use crate::payments;

#[test]
fn identical_declarations_are_kept_once() {
    let merged = payments().merge(payments()).unwrap();
    assert_eq!(merged, payments());
}

#[test]
fn topologies_of_several_services_are_merged() {
    let orders = Topology::new()
        .exchange(Exchange::topic("orders"))
        .queue(Queue::work("q.orders"))
        .bind("orders", "#", "q.orders")
        .bind("payments.events", "payment.posted.v1", "q.orders");
    let merged = orders.merge(payments()).unwrap();
    merged.validate().unwrap();
    let reached = merged.route("payments.events", "payment.posted.v1").unwrap();
    assert_eq!(reached, ["q.orders", "q.payments.events"]);
}

#[test]
fn a_conflict_names_both_declarations() {
    let left = Topology::new().queue(Queue::work("q").delivery_limit(6));
    let right = Topology::new().queue(Queue::work("q").delivery_limit(3));
    let text = left.merge(right).unwrap_err().to_string();
    for part in ["queue \"q\"", "\"delivery_limit\":6", "\"delivery_limit\":3"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn an_exchange_cannot_change_its_kind() {
    let left = Topology::new().exchange(Exchange::topic("e"));
    let error = left.merge(Topology::new().exchange(Exchange::direct("e"))).unwrap_err();
    assert_eq!((error.what, error.name.as_str()), ("exchange", "e"));
}
