//! The promises of the whole platform, as cases that hold on any bus, PostgreSQL included.
//!
//! ```text
//! struct MyPlatform;
//!
//! impl PlatformLab for MyPlatform {
//!     fn bus_url(&self) -> Option<String> { Some(my_url()) }
//! }
//!
//! onceward_transport_conformance::platform_suite!(MyPlatform);
//! ```
//!
//! A small service with a table of effects runs on a database of its own for each case. What its handlers do stands in
//! the messages, so that nothing but the bus differs between two runs.

pub mod carrying;
pub mod failing;
pub mod foreign;
pub mod handling;
pub mod ordering;
mod service;
mod stage;
pub mod stopping;
mod store;

/// A bus that a platform can run on.
pub trait PlatformLab: Send + Sync {
    /// Where the bus is; none is PostgreSQL itself.
    fn bus_url(&self) -> Option<String>;

    /// Whether this run does without the bus, having said so. `bus_url` is not asked for then.
    fn left_out(&self) -> bool {
        false
    }
}

#[doc(hidden)]
pub fn is_left_out(lab: &dyn PlatformLab) -> bool {
    lab.left_out()
}

/// Writes one test for each case. The lab's expression is evaluated in each of them, and may `await`.
#[macro_export]
macro_rules! platform_suite {
    ($lab:expr) => {
        $crate::cases! { $lab;
            platform::handling:
                a_message_has_its_effect_once,
                a_message_exists_if_its_transaction_committed,
                the_routing_key_decides_who_handles_a_message,
                every_queue_handles_a_message_for_itself,
                a_delayed_message_is_not_handled_before_its_time,
                of_what_waits_the_higher_priority_is_handled_first,
                a_leased_consumer_records_its_work_once,
                a_newer_version_waits_for_a_worker_that_knows_it;
            platform::failing:
                a_poisoned_message_is_tried_as_often_as_its_policy_says_and_holds_up_nobody,
                a_dead_letters_copy_lies_on_the_bus,
                a_message_that_waits_for_a_retry_does_not_block_the_queue,
                a_message_of_another_tenant_is_a_dead_letter;
            platform::ordering:
                keys_keep_their_order_with_two_instances,
                a_retry_keeps_its_key_in_order;
            platform::carrying:
                payloads_of_any_size_arrive,
                everything_around_a_payload_arrives;
            platform::foreign:
                a_message_delivered_a_thousand_times_has_one_effect,
                bytes_that_are_no_message_are_dead_letters_and_lose_nothing,
                a_message_from_another_program_is_handled;
            platform::stopping:
                what_one_instance_leaves_another_finishes,
                messages_published_while_nobody_runs_are_handled_later;
        }
    };
}
