//! The contract of the whole platform, as cases that hold on any bus, PostgreSQL included.
//!
//! ```text
//! struct MyPlatform;
//!
//! impl PlatformHarness for MyPlatform {
//!     fn bus_url(&self) -> Option<String> { Some(my_url()) }
//! }
//!
//! onceward_conformance::platform_suite!(MyPlatform);
//! ```
//!
//! A small service with a table of effects runs on its own database for each case. The messages determine what its
//! handlers do, so that only the bus differs between two runs.

pub mod contents;
pub mod controls;
pub mod failures;
mod fixture;
pub mod foreign_messages;
pub mod handling;
pub mod ordering;
mod service;
pub mod stopping;
mod store;

/// A bus that a platform can run on.
pub trait PlatformHarness: Send + Sync {
    /// Returns the URL of the bus; `None` is PostgreSQL itself.
    fn bus_url(&self) -> Option<String>;

    /// Returns SQL that makes the platform violate its contract, to be run after the migrations. Tests of the suite use it
    /// to prove that a case detects the violation.
    fn fault_sql(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether this run excludes the bus, after reporting it. `bus_url` is then not called.
    fn is_left_out(&self) -> bool {
        false
    }
}

#[doc(hidden)]
pub fn is_left_out(harness: &dyn PlatformHarness) -> bool {
    harness.is_left_out()
}

/// Creates one test per case. The harness's expression is evaluated in each of them, and may `await`.
#[macro_export]
macro_rules! platform_suite {
    ($harness:expr) => {
        $crate::cases! { $harness;
            platform::handling:
                a_message_has_its_effect_once,
                a_message_exists_only_if_its_transaction_committed,
                the_routing_key_decides_who_handles_a_message,
                every_queue_handles_a_message_for_itself,
                a_delayed_message_is_not_handled_before_its_time,
                waiting_messages_are_handled_by_priority,
                a_leased_consumer_records_its_work_once,
                a_newer_version_waits_for_a_worker_that_knows_it;
            platform::failures:
                a_poisoned_message_uses_up_its_attempts_and_blocks_no_other,
                a_dead_letter_is_copied_to_the_bus,
                a_message_that_waits_for_a_retry_does_not_block_the_queue,
                a_message_of_another_tenant_is_a_dead_letter;
            platform::ordering:
                keys_keep_their_order_with_two_instances,
                a_retry_keeps_its_key_in_order;
            platform::contents:
                payloads_of_any_size_arrive,
                all_metadata_of_a_message_arrives,
                headers_name_the_message_its_story_and_its_trace_on_the_bus;
            platform::foreign_messages:
                a_message_delivered_a_thousand_times_has_one_effect,
                bytes_that_are_no_message_are_dead_letters_and_lose_nothing,
                a_message_from_another_program_is_handled,
                a_row_that_cannot_be_read_is_a_dead_letter_and_its_neighbours_are_handled;
            platform::controls:
                a_paused_tenant_waits_while_others_go_on_and_continues_in_order_by_itself,
                an_instance_that_starts_during_a_pause_handles_nothing_of_the_queue,
                a_rate_limit_delays_messages_and_loses_none;
            platform::stopping:
                a_second_instance_finishes_the_work_of_a_stopped_one,
                messages_published_while_no_instance_runs_are_handled_later;
        }
    };
}
