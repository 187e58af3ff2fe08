//! Promises broken on purpose. Each must be found by the case that is about it.

use crate::memory::{Fault, MemoryLab};
use onceward_transport_conformance::wire::{contents, declaring, order, publishing, receiving, routing, sharing};

/// A test for each fault: the case that must find it.
macro_rules! found {
    ($($fault:ident: $module:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            #[expect(non_snake_case, reason = "named after the fault")]
            async fn $fault() {
                let case = tokio::spawn(async {
                    let lab = MemoryLab::with(Fault::$fault);
                    $module::$case(&lab).await;
                });
                assert!(case.await.is_err(), "the suite did not find it");
            }
        )+
    };
}

found! {
    CheckSeesNothing: declaring::check_tells_what_is_missing_and_makes_nothing,
    CountsNothingWaiting: declaring::what_waits_goes_up_and_down,
    AcceptsWhatNobodyTakes: publishing::a_message_that_finds_no_queue_though_one_is_expected_is_refused,
    AcceptsTooLarge: publishing::a_body_too_large_is_refused_and_its_neighbours_are_not,
    AcceptsForMissingExchanges: publishing::a_message_for_an_exchange_that_is_missing_is_not_accepted,
    TakesStarForHash: routing::a_topic_exchange_routes_by_pattern,
    OneCopyPerBinding: routing::a_queue_bound_twice_gets_a_message_once,
    IgnoresPrefetch: receiving::prefetch_bounds_what_is_in_hand,
    NeverForgets: receiving::what_was_accepted_does_not_come_again,
    LosesWhatIsDropped: receiving::what_was_not_accepted_comes_again_in_order,
    ReturnsToTheEnd: receiving::what_is_given_back_comes_again_in_order,
    CountsNoDeliveries: receiving::what_is_given_back_comes_again_in_order,
    LimitsNoDeliveries: receiving::a_message_given_back_too_often_goes_to_the_dead_letter_queue,
    ThrowsDeadLettersAway: receiving::a_message_given_back_too_often_goes_to_the_dead_letter_queue,
    ReversesBatches: order::batches_of_one_key_keep_their_order,
    LetsOthersIn: sharing::an_exclusive_reader_shares_no_key_and_its_successor_gets_all_it_had_in_hand,
    ReadsBodiesAsText: contents::bodies_arrive_as_they_were_sent,
    DropsEmptyHeaders: contents::headers_arrive_as_they_were_sent,
}

/// The handover finds more than one fault.
async fn found_by_the_handover(fault: Fault) {
    let case = tokio::spawn(async move {
        let lab = MemoryLab::with(fault);
        sharing::a_queue_changes_hands_while_it_is_filled(&lab).await;
    });
    assert!(case.await.is_err(), "the suite did not find it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_loses_what_a_dead_reader_had_is_found_by_the_handover() {
    found_by_the_handover(Fault::LosesWhatIsDropped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_lets_a_second_reader_in_is_found_by_the_handover() {
    found_by_the_handover(Fault::LetsOthersIn).await;
}
