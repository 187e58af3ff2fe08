//! Cutting time into windows.

use jiff::{SignedDuration, Timestamp};

/// The windows that a tick opens at most when many were missed; older ones are opened if something happened in them.
const MISSED_AT_MOST: i64 = 2_016;

/// Time, cut into windows of one length. They begin at multiples of it since 1970, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    length_s: i64,
}

impl Cut {
    pub(crate) fn new(minutes: i32) -> Self {
        Self { length_s: i64::from(minutes.max(1)) * 60 }
    }

    pub(crate) const fn minutes(self) -> i64 {
        self.length_s / 60
    }

    /// The beginning of the window in which `time` lies. It is also the end of the last one that is over by then.
    pub(crate) fn start_of(self, time: Timestamp) -> Timestamp {
        let second = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
        Timestamp::from_second(second.div_euclid(self.length_s) * self.length_s).unwrap_or(Timestamp::MIN)
    }

    pub(crate) fn end_of(self, start: Timestamp) -> Timestamp {
        self.after(start, 1)
    }

    /// The windows from `next` on that are over at `time`, oldest first, at most `limit`; and the one after them. Without
    /// `next` there is one, the last that is over.
    pub(crate) fn over(self, next: Option<Timestamp>, time: Timestamp, limit: usize) -> (Vec<Timestamp>, Timestamp) {
        let end = self.start_of(time);
        let missed = self.after(end, -MISSED_AT_MOST);
        let mut start = next.map_or(self.after(end, -1), |next| next.max(missed));
        let mut windows = Vec::new();
        while start < end && windows.len() < limit {
            windows.push(start);
            start = self.end_of(start);
        }
        (windows, start)
    }

    fn after(self, start: Timestamp, windows: i64) -> Timestamp {
        start.saturating_add(SignedDuration::from_secs(self.length_s * windows)).unwrap_or(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_window_holds_its_beginning_and_not_its_end() {
        let cut = Cut::new(5);
        let check = |time, start| assert_eq!(cut.start_of(at(time)), at(start), "{time}");
        check("2026-01-01T10:05:00Z", "2026-01-01T10:05:00Z");
        check("2026-01-01T10:04:59.999999Z", "2026-01-01T10:00:00Z");
        check("1969-12-31T23:59:59.5Z", "1969-12-31T23:55:00Z");
        assert_eq!(cut.end_of(at("2026-01-01T23:55:00Z")), at("2026-01-02T00:00:00Z"));
    }

    #[test]
    fn what_was_missed_comes_oldest_first_and_some_at_a_time() {
        let cut = Cut::new(5);
        let now = at("2026-01-01T10:17:00Z");
        assert_eq!(cut.over(None, now, 9), (vec![at("2026-01-01T10:10:00Z")], at("2026-01-01T10:15:00Z")));
        let next = Some(at("2026-01-01T10:00:00Z"));
        let (windows, rest) = cut.over(next, now, 2);
        assert_eq!(windows, [at("2026-01-01T10:00:00Z"), at("2026-01-01T10:05:00Z")]);
        assert_eq!(cut.over(Some(rest), now, 2), (vec![at("2026-01-01T10:10:00Z")], at("2026-01-01T10:15:00Z")));
        assert_eq!(cut.over(Some(at("2026-01-01T10:15:00Z")), now, 2).0, []);
        assert_eq!(cut.over(Some(at("2026-01-01T11:00:00Z")), now, 2).1, at("2026-01-01T11:00:00Z"), "never back");
    }

    #[test]
    fn after_years_only_the_last_windows_are_made_up_for() {
        let (windows, next) = Cut::new(5).over(Some(at("2020-01-01T00:00:00Z")), at("2026-01-08T00:00:00Z"), 9_999);
        assert_eq!((windows.len(), windows[0]), (2_016, at("2026-01-01T00:00:00Z")));
        assert_eq!(next, at("2026-01-08T00:00:00Z"));
    }
}
