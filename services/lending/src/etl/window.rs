//! Reporting windows, as a division of time.

use jiff::{SignedDuration, Timestamp};

/// The most windows that a tick opens if many were missed; older ones are opened if something happened in them.
const MAX_MISSED: i64 = 2_016;

/// The length of windows. Windows start at multiples of it since 1970, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowLength {
    length_s: i64,
}

impl WindowLength {
    pub(crate) fn new(minutes: i32) -> Self {
        Self { length_s: i64::from(minutes.max(1)) * 60 }
    }

    pub(crate) const fn minutes(self) -> i64 {
        self.length_s / 60
    }

    /// Returns the start of the window that contains `time`, which is also the end of the last window that has ended
    /// by then.
    pub(crate) fn start_of(self, time: Timestamp) -> Timestamp {
        let second = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
        Timestamp::from_second(second.div_euclid(self.length_s) * self.length_s).unwrap_or(Timestamp::MIN)
    }

    pub(crate) fn end_of(self, start: Timestamp) -> Timestamp {
        self.after(start, 1)
    }

    /// Returns the windows from `next` on that have ended at `time`, oldest first, at most `limit`; and the start of
    /// the window after them. Without `next`, the first one is the last window that has ended.
    pub(crate) fn ended_by(
        self,
        next: Option<Timestamp>,
        time: Timestamp,
        limit: usize,
    ) -> (Vec<Timestamp>, Timestamp) {
        let end = self.start_of(time);
        let missed = self.after(end, -MAX_MISSED);
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
    fn a_window_includes_its_start_and_excludes_its_end() {
        let length = WindowLength::new(5);
        let check = |time, start| assert_eq!(length.start_of(at(time)), at(start), "{time}");
        check("2026-01-01T10:05:00Z", "2026-01-01T10:05:00Z");
        check("2026-01-01T10:04:59.999999Z", "2026-01-01T10:00:00Z");
        check("1969-12-31T23:59:59.5Z", "1969-12-31T23:55:00Z");
        assert_eq!(length.end_of(at("2026-01-01T23:55:00Z")), at("2026-01-02T00:00:00Z"));
    }

    #[test]
    fn missed_windows_are_returned_oldest_first_up_to_the_limit() {
        let length = WindowLength::new(5);
        let now = at("2026-01-01T10:17:00Z");
        assert_eq!(length.ended_by(None, now, 9), (vec![at("2026-01-01T10:10:00Z")], at("2026-01-01T10:15:00Z")));
        let next = Some(at("2026-01-01T10:00:00Z"));
        let (windows, rest) = length.ended_by(next, now, 2);
        assert_eq!(windows, [at("2026-01-01T10:00:00Z"), at("2026-01-01T10:05:00Z")]);
        assert_eq!(length.ended_by(Some(rest), now, 2), (vec![at("2026-01-01T10:10:00Z")], at("2026-01-01T10:15:00Z")));
        assert_eq!(length.ended_by(Some(at("2026-01-01T10:15:00Z")), now, 2).0, []);
        assert_eq!(
            length.ended_by(Some(at("2026-01-01T11:00:00Z")), now, 2).1,
            at("2026-01-01T11:00:00Z"),
            "the next window never moves back"
        );
    }

    #[test]
    fn after_years_only_the_latest_windows_are_opened() {
        let (windows, next) =
            WindowLength::new(5).ended_by(Some(at("2020-01-01T00:00:00Z")), at("2026-01-08T00:00:00Z"), 9_999);
        assert_eq!((windows.len(), windows[0]), (2_016, at("2026-01-01T00:00:00Z")));
        assert_eq!(next, at("2026-01-08T00:00:00Z"));
    }
}
