//! A broker in memory passes everything that needs no network.

use crate::memory::MemoryLab;
use onceward_transport_conformance::cases;

cases! { MemoryLab::good();
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
}
