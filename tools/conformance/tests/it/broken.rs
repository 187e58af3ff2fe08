//! Deliberate violations of the contract. Each must be found by the case that covers it.

use crate::memory_broker::{Fault, MemoryHarness};
use onceward_conformance::broker::{contents, declaring, ordering, publishing, receiving, routing, sharing};

/// Creates a test for each fault, with the case that must find it.
macro_rules! each_fault_is_found {
    ($($fault:ident: $module:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            #[expect(non_snake_case, reason = "named after the fault")]
            async fn $fault() {
                let case = tokio::spawn(async {
                    let harness = MemoryHarness::with(Fault::$fault);
                    $module::$case(&harness).await;
                });
                assert!(case.await.is_err(), "the suite did not find the fault");
            }
        )+
    };
}

each_fault_is_found! {
    CheckReportsNothing: declaring::check_reports_what_is_missing_and_creates_nothing,
    CountsNothingWaiting: declaring::the_backlog_grows_with_publishing_and_shrinks_with_accepting,
    ReportsNoAge: declaring::the_backlog_grows_with_publishing_and_shrinks_with_accepting,
    AcceptsUnroutable: publishing::a_message_without_its_expected_queue_is_refused,
    AcceptsTooLarge: publishing::an_oversized_body_is_refused_and_the_rest_of_its_batch_is_accepted,
    AcceptsForMissingExchanges: publishing::a_message_for_a_missing_exchange_is_not_accepted,
    TreatsStarAsHash: routing::a_topic_exchange_routes_by_pattern,
    OneCopyPerBinding: routing::a_queue_bound_twice_gets_a_message_once,
    IgnoresPrefetch: receiving::prefetch_limits_unaccepted_messages,
    RedeliversAccepted: receiving::accepted_messages_are_not_redelivered,
    LosesUnaccepted: receiving::unaccepted_messages_are_redelivered_in_order,
    ReturnsToTheEnd: receiving::returned_messages_are_redelivered_in_order,
    CountsNoDeliveries: receiving::returned_messages_are_redelivered_in_order,
    LimitsNoDeliveries: receiving::a_message_returned_too_often_goes_to_the_dead_letter_queue,
    DiscardsDeadLetters: receiving::a_message_returned_too_often_goes_to_the_dead_letter_queue,
    ReversesBatches: ordering::batches_of_one_key_keep_their_order,
    AllowsSecondReader: sharing::an_exclusive_reader_shares_no_key_and_its_successor_gets_its_unaccepted_messages,
    ReadsBodiesAsText: contents::bodies_arrive_as_they_were_sent,
    DropsEmptyHeaders: contents::headers_arrive_as_they_were_sent,
}

/// Checks that the handover case finds the fault; it finds more than one.
async fn assert_found_by_handover(fault: Fault) {
    let case = tokio::spawn(async move {
        let harness = MemoryHarness::with(fault);
        sharing::a_handover_between_readers_loses_no_message_and_keeps_the_order(&harness).await;
    });
    assert!(case.await.is_err(), "the suite did not find the fault");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handover_case_finds_a_broker_that_loses_the_messages_of_a_dead_reader() {
    assert_found_by_handover(Fault::LosesUnaccepted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handover_case_finds_a_broker_that_admits_a_second_reader() {
    assert_found_by_handover(Fault::AllowsSecondReader).await;
}
