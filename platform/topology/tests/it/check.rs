//! Problems that the check must find, and valid topologies that it must accept.

use onceward_topology::{Exchange, Queue, Topology};

use crate::payments;

/// Returns all problems as text.
fn problems(topology: &Topology) -> Vec<String> {
    let problems = topology.validate().err().unwrap_or_default();
    problems.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(topology: &Topology, expected: &[&str]) {
    let found = problems(topology);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (problem, part) in found.iter().zip(expected) {
        assert!(problem.contains(part), "{part:?} is not in {problem:?}");
    }
}

/// A topology whose queue dead-letters with the messages' own keys to the given exchange.
fn dead_letters_with_own_keys(pattern: &str, dead_letters: Exchange, dead_pattern: &str) -> Topology {
    Topology::new()
        .exchange(Exchange::topic("e"))
        .exchange(dead_letters)
        .queue(Queue::work("q").dead_letter("dlx"))
        .queue(Queue::dead_letter_store("dlq"))
        .bind("e", pattern, "q")
        .bind("dlx", dead_pattern, "dlq")
}

#[test]
fn the_payments_topology_is_valid() {
    check(&payments(), &[]);
    check(&Topology::new(), &[]);
}

#[test]
fn bindings_need_a_declared_exchange_and_queue() {
    let topology = Topology::new().queue(Queue::work("q")).bind("gone", "#", "q");
    check(&topology, &["\"gone\", which is not declared"]);
    let topology = Topology::new().exchange(Exchange::topic("e")).bind("e", "#", "gone");
    check(&topology, &["queue \"gone\", which is not declared"]);
}

#[test]
fn every_problem_is_reported_at_once() {
    let topology = Topology::new()
        .exchange(Exchange::topic("a:b"))
        .exchange(Exchange::topic("a:b"))
        .queue(Queue::work(""))
        .bind("gone", "#", "lost");
    let found = problems(&topology);
    assert_eq!(found.len(), 6, "{found:#?}");
}

#[test]
fn names_must_be_valid_on_every_bus() {
    check(&Topology::new().queue(Queue::work("q".repeat(256))), &["1 to 255 bytes"]);
    check(&Topology::new().queue(Queue::work("a\nb")), &["control characters"]);
    check(&Topology::new().exchange(Exchange::topic("amq.topic")), &["RabbitMQ"]);
    check(&Topology::new().queue(Queue::work("a:b")), &[]);
    let topology =
        Topology::new().exchange(Exchange::topic("e")).queue(Queue::work("q")).bind("e", "p".repeat(256), "q");
    check(&topology, &["at most 255 bytes"]);
}

#[test]
fn numbers_must_be_in_range() {
    let queue = |queue: Queue| Topology::new().queue(queue);
    check(&queue(Queue::work("q").shards(0)), &["shards = 0: use 1 to 64"]);
    check(&queue(Queue::work("q").shards(65)), &["shards = 65"]);
    check(&queue(Queue::work("q").max_priority(10)), &["max_priority = 10: use 1 to 9"]);
    check(&queue(Queue::work("q").max_priority(0)), &["max_priority = 0"]);
    check(&queue(Queue::work("q").delivery_limit(0)), &["delivery_limit = 0"]);
    check(&queue(Queue::work("q").ttl_ms(0)), &["message_ttl_ms = 0"]);
    check(&queue(Queue::work("q").shards(64).max_priority(9).delivery_limit(1).ttl_ms(1)), &[]);
}

#[test]
fn dead_letters_need_a_declared_exchange() {
    let topology = Topology::new().queue(Queue::work("q").dead_letter("gone"));
    check(&topology, &["dead-letters to the exchange \"gone\""]);
}

#[test]
fn a_dead_letter_key_must_reach_a_queue() {
    let topology = Topology::new()
        .exchange(Exchange::direct("dlx"))
        .queue(Queue::work("q").dead_letter_as("dlx", "dead"))
        .queue(Queue::dead_letter_store("dlq"))
        .bind("dlx", "#", "dlq");
    check(&topology, &["with the key \"dead\" reach no queue"]);
    check(&topology.bind("dlx", "dead", "dlq"), &[]);
}

#[test]
fn dead_letters_that_keep_their_key_must_all_reach_a_queue() {
    check(&dead_letters_with_own_keys("a.*", Exchange::topic("dlx"), "#"), &[]);
    check(&dead_letters_with_own_keys("a.*", Exchange::topic("dlx"), "a.#"), &[]);
    check(&dead_letters_with_own_keys("a.#", Exchange::fanout("dlx"), ""), &[]);
    check(&dead_letters_with_own_keys("a.b", Exchange::direct("dlx"), "a.b"), &[]);
    check(&dead_letters_with_own_keys("a.#", Exchange::topic("dlx"), "a.*"), &["with the key \"a.#\""]);
    check(&dead_letters_with_own_keys("a.*", Exchange::direct("dlx"), "a.*"), &["with the key \"a.*\""]);
}

#[test]
fn dead_letter_cycles_are_reported() {
    let topology = Topology::new()
        .exchange(Exchange::topic("e"))
        .queue(Queue::work("a").dead_letter_as("e", "to.b"))
        .queue(Queue::work("b").dead_letter_as("e", "to.a"))
        .bind("e", "to.a", "a")
        .bind("e", "to.b", "b");
    check(&topology, &["a -> b -> a"]);
}

#[test]
fn a_queue_that_dead_letters_to_itself_is_a_cycle() {
    let topology =
        Topology::new().exchange(Exchange::topic("e")).queue(Queue::work("q").dead_letter("e")).bind("e", "a.#", "q");
    check(&topology, &["q -> q"]);
}

#[test]
fn sharing_an_exchange_with_different_keys_is_no_cycle() {
    let topology = Topology::new()
        .exchange(Exchange::topic("e"))
        .queue(Queue::work("q").dead_letter_as("e", "dead"))
        .queue(Queue::dead_letter_store("dlq"))
        .bind("e", "work.#", "q")
        .bind("e", "dead", "dlq");
    check(&topology, &[]);
}
