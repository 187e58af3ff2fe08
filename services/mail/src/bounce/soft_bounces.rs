//! When failures that are not final stop mail to an address for a time.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// A soft bounce of one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftBounce {
    /// When it was reported.
    pub at: Timestamp,
    /// The send that bounced; the recipient's system may report one send several times.
    pub send_id: uuid::Uuid,
}

/// Stops mail after several soft bounces of several sends within a window: first for a short time, then for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftBounceRule {
    /// How many soft bounces stop mail.
    pub bounces: usize,
    /// Of how many different sends they must be.
    pub distinct_sends: usize,
    /// Within which time before the newest one.
    pub window: SignedDuration,
    /// For how long mail stops the first time.
    pub first_suppression: SignedDuration,
    /// For how long mail stops every further time.
    pub next_suppression: SignedDuration,
}

impl Default for SoftBounceRule {
    /// Three bounces of two sends in 7 days stop mail for 7 days, and then for 30 days.
    fn default() -> Self {
        Self {
            bounces: 3,
            distinct_sends: 2,
            window: SignedDuration::from_hours(7 * 24),
            first_suppression: SignedDuration::from_hours(7 * 24),
            next_suppression: SignedDuration::from_hours(30 * 24),
        }
    }
}

impl SoftBounceRule {
    /// Returns until when mail stops after the newest of these bounces, or none if it does not.
    ///
    /// `earlier_suppressions` counts how often this rule stopped mail to the address since its last success. The caller
    /// passes only bounces since the end of the last suppression, in any order.
    pub fn suppressed_until(&self, bounces: &[SoftBounce], earlier_suppressions: u32) -> Option<Timestamp> {
        let newest = bounces.iter().map(|bounce| bounce.at).max()?;
        let recent = bounces.iter().filter(|bounce| newest.duration_since(bounce.at) < self.window);
        let recent: Vec<&SoftBounce> = recent.collect();
        let sends: BTreeSet<_> = recent.iter().map(|bounce| bounce.send_id).collect();
        if recent.len() < self.bounces || sends.len() < self.distinct_sends {
            return None;
        }
        let time = if earlier_suppressions == 0 { self.first_suppression } else { self.next_suppression };
        newest.checked_add(time).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounce(day: i64, send: u128) -> SoftBounce {
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * day);
        SoftBounce { at, send_id: uuid::Uuid::from_u128(send) }
    }

    fn day(day: i64) -> Option<Timestamp> {
        Some(bounce(day, 0).at)
    }

    #[test]
    fn three_bounces_of_two_sends_within_a_week_stop_mail_for_a_week_and_then_for_a_month() {
        let bounces = [bounce(4, 2), bounce(0, 1), bounce(2, 1)];
        assert_eq!(SoftBounceRule::default().suppressed_until(&bounces, 0), day(11));
        assert_eq!(SoftBounceRule::default().suppressed_until(&bounces, 1), day(34));
    }

    #[test]
    fn fewer_bounces_or_one_send_or_a_longer_time_do_not() {
        let rule = SoftBounceRule::default();
        assert_eq!(rule.suppressed_until(&[], 0), None);
        assert_eq!(rule.suppressed_until(&[bounce(0, 1), bounce(1, 2)], 0), None);
        assert_eq!(rule.suppressed_until(&[bounce(0, 1), bounce(1, 1), bounce(2, 1)], 0), None);
        assert_eq!(rule.suppressed_until(&[bounce(0, 1), bounce(1, 2), bounce(7, 3)], 0), None);
    }
}
