//! The contract of a broker and of its receivers, as cases.
//!
//! ```text
//! struct MyHarness(String);
//!
//! impl BrokerHarness for MyHarness {
//!     fn url(&self) -> String { self.0.clone() }
//!     fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker> {
//!         Arc::new(MyBroker::new(config, topology))
//!     }
//! }
//!
//! onceward_conformance::broker_suite!(MyHarness(my_url().await));
//! ```

pub mod contents;
pub mod declaring;
pub(crate) mod fixture;
pub mod ordering;
pub mod outages;
pub mod publishing;
mod queue_reader;
pub mod receiving;
pub mod routing;
pub mod sharing;

use onceward_broker::{Broker, BrokerConfig};
use onceward_testkit::PATIENCE;
use onceward_topology::Topology;
use std::{sync::Arc, time::Duration};

/// A broker's server, and how to connect to it.
pub trait BrokerHarness: Send + Sync {
    /// Returns the URL of the server.
    fn url(&self) -> String;

    /// Creates a new broker.
    fn broker(&self, config: BrokerConfig, topology: Topology) -> Arc<dyn Broker>;

    /// Returns whether clients reach the server over a network. Cases about outages put a proxy into it.
    fn uses_network(&self) -> bool {
        true
    }

    /// Returns whether this run excludes the server, after reporting it. `url` is then not called.
    fn is_left_out(&self) -> bool {
        false
    }

    /// Returns how long a case waits before it fails.
    fn timeout(&self) -> Duration {
        PATIENCE
    }
}

#[doc(hidden)]
pub fn is_left_out(harness: &dyn BrokerHarness) -> bool {
    harness.is_left_out()
}

/// Creates one test per case. The harness's expression is evaluated in each of them, and may `await`.
#[macro_export]
macro_rules! broker_suite {
    ($harness:expr) => {
        $crate::cases! { $harness;
            broker::declaring:
                declaring_twice_creates_nothing_new_and_leaves_no_differences,
                processes_that_declare_concurrently_lose_no_message,
                check_reports_what_is_missing_and_creates_nothing,
                a_queue_receives_what_is_published_after_its_declaration,
                opening_a_missing_queue_reports_it_as_missing,
                the_backlog_grows_with_publishing_and_shrinks_with_accepting,
                a_healthy_server_responds_to_a_ping_and_a_request_for_advice;
            broker::publishing:
                every_parcel_gets_its_verdict,
                publishing_an_empty_batch_succeeds,
                an_unrouted_message_is_accepted,
                a_message_without_its_expected_queue_is_refused,
                a_message_for_a_missing_exchange_is_not_accepted,
                an_oversized_body_is_refused_and_the_rest_of_its_batch_is_accepted,
                the_largest_allowed_body_is_accepted;
            broker::routing:
                a_topic_exchange_routes_by_pattern,
                a_direct_exchange_routes_by_equality,
                a_fanout_exchange_routes_to_every_queue,
                a_queue_bound_twice_gets_a_message_once,
                a_queue_bound_to_two_exchanges_gets_the_messages_of_both,
                a_routing_key_matches_only_bindings_of_its_exchange;
            broker::receiving:
                receive_respects_its_limit_and_its_timeout,
                prefetch_limits_unaccepted_messages,
                accepted_messages_are_not_redelivered,
                unaccepted_messages_are_redelivered_in_order,
                returned_messages_are_redelivered_in_order,
                a_message_returned_too_often_goes_to_the_dead_letter_queue,
                closing_while_a_queue_is_read_loses_nothing;
            broker::ordering:
                keys_keep_their_order_under_concurrent_publishing,
                batches_of_one_key_keep_their_order;
            broker::sharing:
                an_exclusive_reader_shares_no_key_and_its_successor_gets_its_unaccepted_messages,
                a_handover_between_readers_loses_no_message_and_keeps_the_order,
                readers_that_share_a_queue_receive_every_message;
            broker::contents:
                bodies_arrive_as_they_were_sent,
                headers_arrive_as_they_were_sent,
                any_ordering_key_is_preserved;
            broker::outages:
                publishers_and_readers_recover_from_lost_connections,
                publishing_over_a_stalled_network_fails_and_recovers,
                receiving_over_a_stalled_network_fails_and_recovers,
                a_reader_behind_a_stalled_network_is_replaced,
                a_rotated_address_needs_no_restart,
                an_unreachable_server_is_reported_without_its_password,
                closing_the_broker_closes_every_connection;
        }
    };
}
