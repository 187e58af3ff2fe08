//! What follows from all reports about a recipient or an address, in whichever order they arrived. No I/O.

use jiff::Timestamp;
use onceward_mail::bounce::{DeliveryRank, SoftBounce, SoftBounceRule};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Returns what is known about a recipient: the highest rank, except that a delivery ends an earlier delay. `None` without
/// reports.
pub(super) fn recipient_feedback(reports: &[(DeliveryRank, Timestamp)]) -> Option<DeliveryRank> {
    let mut reports = reports.to_vec();
    reports.sort_by_key(|(rank, occurred_at)| (*occurred_at, *rank));
    let (first, later) = reports.split_first()?;
    Some(later.iter().fold(first.0, |state, (rank, _)| state.after(*rank, true)))
}

/// A report that counts for or against an address for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressReport {
    pub is_bounce: bool,
    pub email_id: Uuid,
    pub occurred_at: Timestamp,
}

/// Mail to an address stops for a time, after several soft bounces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SoftStop {
    pub since: Timestamp,
    pub until: Timestamp,
}

/// Returns the stop that soft bounces lead to, which may have ended. Deliveries end it, and so does a verification of the
/// address: reports from before `cleared_at` do not count.
pub(super) fn soft_stop(reports: &[AddressReport], cleared_at: Option<Timestamp>) -> Option<SoftStop> {
    let bounced: BTreeSet<Uuid> = reports.iter().filter(|one| one.is_bounce).map(|one| one.email_id).collect();
    // A mail that was delivered to a relay and then bounced was not delivered.
    let counts = |one: &&AddressReport| {
        cleared_at.is_none_or(|at| one.occurred_at > at) && (one.is_bounce || !bounced.contains(&one.email_id))
    };
    let mut reports: Vec<AddressReport> = reports.iter().filter(counts).copied().collect();
    reports.sort_by_key(|one| (one.occurred_at, one.is_bounce, one.email_id));
    let rule = SoftBounceRule::default();
    let (mut bounces, mut earlier, mut stop) = (Vec::new(), 0, None::<SoftStop>);
    for report in reports {
        if !report.is_bounce {
            (bounces, earlier, stop) = (Vec::new(), 0, None);
        } else if stop.is_none_or(|stop| report.occurred_at >= stop.until) {
            // A bounce before the end of a stop belongs to a mail that was on its way when the stop began.
            bounces.push(SoftBounce { at: report.occurred_at, send_id: report.email_id });
            if let Some(until) = rule.suppressed_until(&bounces, earlier) {
                stop = Some(SoftStop { since: report.occurred_at, until });
                earlier += 1;
                bounces.clear();
            }
        }
    }
    stop
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use proptest::prelude::*;

    fn day(day: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * day)
    }

    fn bounce(on: i64, mail: u128) -> AddressReport {
        AddressReport { is_bounce: true, email_id: Uuid::from_u128(mail), occurred_at: day(on) }
    }

    fn delivery(on: i64, mail: u128) -> AddressReport {
        AddressReport { is_bounce: false, ..bounce(on, mail) }
    }

    #[test]
    fn soft_bounces_stop_mail_for_7_days_and_then_for_30_until_a_delivery() {
        let mut reports = vec![bounce(0, 1), bounce(1, 1), bounce(2, 2)];
        assert_eq!(soft_stop(&reports, None), Some(SoftStop { since: day(2), until: day(9) }));
        reports.extend([bounce(3, 3), bounce(10, 4), bounce(11, 5)]);
        let first = soft_stop(&reports, None);
        assert_eq!(first, Some(SoftStop { since: day(2), until: day(9) }), "two bounces after the stop");
        reports.push(bounce(12, 6));
        assert_eq!(soft_stop(&reports, None), Some(SoftStop { since: day(12), until: day(42) }));
        reports.push(delivery(43, 7));
        assert_eq!(soft_stop(&reports, None), None);
        reports.extend([bounce(44, 8), bounce(45, 9), bounce(46, 10)]);
        assert_eq!(soft_stop(&reports, None), Some(SoftStop { since: day(46), until: day(53) }));
        assert_eq!(soft_stop(&reports, Some(day(45))), None, "the address was verified");
    }

    #[test]
    fn a_mail_that_bounced_after_its_delivery_clears_nothing() {
        let reports = [bounce(0, 1), bounce(1, 2), delivery(2, 3), bounce(3, 3)];
        assert_eq!(soft_stop(&reports, None), Some(SoftStop { since: day(3), until: day(10) }));
    }

    #[test]
    fn a_delivery_ends_a_delay_and_nothing_else() {
        use DeliveryRank::{Bounced, Complained, Deferred, Delivered};
        for (reports, state) in [
            (&[][..], None),
            (&[(Deferred, 1), (Delivered, 2)], Some(Delivered)),
            (&[(Delivered, 1), (Deferred, 2)], Some(Deferred)),
            (&[(Bounced, 1), (Delivered, 2)], Some(Bounced)),
            (&[(Complained, 1), (Bounced, 2), (Delivered, 3)], Some(Complained)),
        ] {
            let reports: Vec<_> = reports.iter().map(|(rank, on)| (*rank, day(*on))).collect();
            assert_eq!(recipient_feedback(&reports), state, "{reports:?}");
        }
    }

    fn any_report() -> impl Strategy<Value = AddressReport> {
        (any::<bool>(), 0..6_u128, 0..60_i64).prop_map(|(is_bounce, mail, on)| match is_bounce {
            true => bounce(on, mail),
            false => delivery(on, mail),
        })
    }

    proptest! {
        #[test]
        fn reports_in_any_order_lead_to_the_same_stop(
            (reports, shuffled) in prop::collection::vec(any_report(), 0..12)
                .prop_flat_map(|reports| (Just(reports.clone()), Just(reports).prop_shuffle())),
        ) {
            prop_assert_eq!(soft_stop(&reports, None), soft_stop(&shuffled, None));
        }

        #[test]
        fn reports_in_any_order_and_number_lead_to_the_same_state(
            (reports, shuffled) in prop::collection::vec((0..4_usize, 0..5_i64), 1..12)
                .prop_flat_map(|reports| (Just(reports.clone()), Just([reports.clone(), reports].concat()).prop_shuffle())),
        ) {
            let kinds = [DeliveryRank::Delivered, DeliveryRank::Deferred, DeliveryRank::Bounced, DeliveryRank::Complained];
            let read = |reports: &[(usize, i64)]| {
                let reports: Vec<_> = reports.iter().map(|(kind, on)| (kinds[*kind], day(*on))).collect();
                recipient_feedback(&reports)
            };
            prop_assert_eq!(read(&reports), read(&shuffled));
        }
    }
}
