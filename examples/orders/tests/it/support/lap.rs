//! How long requests took over a stretch of time. It is printed and decides nothing.

use std::{fmt, time::Duration};

pub struct Lap(Vec<Duration>);

impl Lap {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }
}

impl fmt::Display for Lap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |share: f64| self.0.get(((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1)));
        let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0);
        write!(f, "p50 {:.1} ms, p99 {:.1} ms ({} requests)", ms(at(0.5)), ms(at(0.99)), self.0.len())
    }
}
