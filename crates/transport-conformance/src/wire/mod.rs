//! The promises of a broker and of its receivers, as cases.
//!
//! ```text
//! struct MyLab(String);
//!
//! impl Lab for MyLab {
//!     fn url(&self) -> String { self.0.clone() }
//!     fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
//!         Arc::new(MyBroker::new(config, topology))
//!     }
//! }
//!
//! onceward_transport_conformance::wire_suite!(MyLab(my_url().await));
//! ```

pub mod contents;
pub mod declaring;
pub mod order;
pub mod outages;
pub mod publishing;
mod reader;
pub mod receiving;
pub mod routing;
pub mod sharing;
pub(crate) mod stand;

use onceward_testkit::PATIENCE;
use onceward_topology::Topology;
use onceward_transport::{Broker, BrokerConfig};
use std::{sync::Arc, time::Duration};

/// A broker's server, and how to speak to it.
pub trait Lab: Send + Sync {
    /// Where the server is.
    fn url(&self) -> String;

    /// A broker that nobody has used yet.
    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker>;

    /// Whether a client that is given a proxy's address stays behind the proxy. Cases about outages need one.
    fn can_be_proxied(&self) -> bool {
        true
    }

    /// Whether this run does without the server, having said so. `url` is not asked for then.
    fn left_out(&self) -> bool {
        false
    }

    /// How long a case waits before it fails.
    fn patience(&self) -> Duration {
        PATIENCE
    }
}

#[doc(hidden)]
pub fn is_left_out(lab: &dyn Lab) -> bool {
    lab.left_out()
}

/// Writes one test for each case. The lab's expression is evaluated in each of them, and may `await`.
#[macro_export]
macro_rules! wire_suite {
    ($lab:expr) => {
        $crate::cases! { $lab;
            wire::declaring:
                declaring_twice_makes_nothing_more_and_leaves_no_difference,
                processes_that_declare_at_once_lose_nothing,
                check_tells_what_is_missing_and_makes_nothing,
                a_queue_gets_what_is_published_after_it_was_declared,
                opening_a_queue_that_is_missing_says_so,
                what_waits_goes_up_and_down,
                a_healthy_server_answers_a_ping_and_gives_advice;
            wire::publishing:
                every_parcel_gets_its_verdict,
                publishing_nothing_is_no_error,
                a_message_nobody_waits_for_is_accepted,
                a_message_that_finds_no_queue_though_one_is_expected_is_refused,
                a_message_for_an_exchange_that_is_missing_is_not_accepted,
                a_body_too_large_is_refused_and_its_neighbours_are_not,
                the_largest_body_is_accepted;
            wire::routing:
                a_topic_exchange_routes_by_pattern,
                a_direct_exchange_routes_by_equality,
                a_fanout_exchange_routes_to_every_queue,
                a_queue_bound_twice_gets_a_message_once,
                a_queue_bound_to_two_exchanges_gets_the_messages_of_both,
                the_same_words_on_another_exchange_do_not_match;
            wire::receiving:
                receive_keeps_to_its_limit_and_to_its_time,
                prefetch_bounds_what_is_in_hand,
                what_was_accepted_does_not_come_again,
                what_was_not_accepted_comes_again_in_order,
                what_is_given_back_comes_again_in_order,
                a_message_given_back_too_often_goes_to_the_dead_letter_queue,
                closing_while_a_queue_is_read_loses_nothing;
            wire::order:
                keys_keep_their_order_under_concurrent_publishing,
                batches_of_one_key_keep_their_order;
            wire::sharing:
                an_exclusive_reader_shares_no_key_and_its_successor_gets_all_it_had_in_hand,
                a_queue_changes_hands_while_it_is_filled,
                readers_that_share_a_queue_get_everything;
            wire::contents:
                bodies_arrive_as_they_were_sent,
                headers_arrive_as_they_were_sent,
                any_ordering_key_is_carried;
            wire::outages:
                both_sides_recover_from_lost_connections,
                publishing_into_silence_fails_and_recovers,
                receiving_from_silence_fails_and_recovers,
                a_reader_behind_a_silent_network_is_replaced,
                a_rotated_address_needs_no_restart,
                a_server_that_is_not_there_is_reported_without_its_password,
                closing_ends_every_connection;
        }
    };
}
