//! The charts of the live view, as SVG. They use classes instead of inline styles, so that the page's content security
//! policy needs no exception, and have a title and a text description for people who cannot see them.

use super::{
    snapshot::{BucketFill, MinuteCounts},
    store::MINUTES_SHOWN,
};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

/// The drawing's size in SVG user units.
const WIDTH: i64 = 480;
const HEIGHT: i64 = 190;
const LEFT: i64 = 34;
const RIGHT: i64 = 8;
const TOP: i64 = 12;
const BOTTOM: i64 = 26;
/// The number of intervals between a scale's grid lines.
const LINES: i64 = 4;

/// Formats a number with thousands separators.
pub(super) fn number(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

/// Draws the starts and completes of each of the last minutes.
pub(super) fn per_minute(minutes: &[MinuteCounts], now: Timestamp) -> Markup {
    let slots = slots(minutes, now);
    let top = scale_top(slots.iter().map(|slot| slot.started.max(slot.completed)).max().unwrap_or(0));
    let (plot_width, plot_height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let base = HEIGHT - BOTTOM;
    let count = i64::from(MINUTES_SHOWN);
    let x = |at: usize| LEFT + plot_width * at as i64 / count;
    let width = (plot_width / count - 1).max(1);
    let height = |value: i64| plot_height * value / top;
    let completed: i64 = slots.iter().map(|slot| slot.completed).sum();
    let started: i64 = slots.iter().map(|slot| slot.started).sum();
    let best = slots.iter().max_by_key(|slot| slot.completed).filter(|slot| slot.completed > 0);
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-labelledby="per-minute-title per-minute-words" {
            title id="per-minute-title" { "Starts and completes per minute" }
            desc id="per-minute-words" {
                "In the last hour " (number(started)) " started and " (number(completed)) " completed."
                @if let Some(best) = best { " The most completes in one minute were " (number(best.completed)) ", at " (clock(best.minute)) " UTC." }
            }
            @for line in 0..=LINES {
                @let y = base - plot_height * line / LINES;
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y) y2=(y) {}
                @if top % LINES == 0 || line == 0 || line == LINES {
                    text.axis x=(LEFT - 6) y=(y + 4) text-anchor="end" { (number(top * line / LINES)) }
                }
            }
            @for (at, slot) in slots.iter().enumerate() {
                @if slot.started > 0 {
                    rect.started x=(x(at)) y=(base - height(slot.started)) width=(width) height=(height(slot.started).max(1)) {}
                }
                @if slot.completed > 0 {
                    rect.completed x=(x(at)) y=(base - height(slot.completed)) width=(width) height=(height(slot.completed).max(1)) {}
                }
            }
            @for (at, anchor) in [(0, "start"), (slots.len() / 2, "middle"), (slots.len() - 1, "end")] {
                text.axis x=(if anchor == "end" { WIDTH - RIGHT } else { x(at) }) y=(HEIGHT - 8) text-anchor=(anchor) {
                    (clock(slots[at].minute))
                }
            }
            @if started + completed == 0 {
                text.empty x=(LEFT + plot_width / 2) y=(TOP + plot_height / 2) text-anchor="middle" { "Nothing in the last hour" }
            }
        }
    }
}

/// Draws shares of a whole: `part` first, then `more`.
pub(super) fn bar(description: &str, part: i64, more: i64, whole: i64) -> Markup {
    let whole = whole.max(1);
    let width = |value: i64| (1_000 * value.clamp(0, whole) / whole) as f64 / 10.0;
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img" {
            title { (description) }
            rect.track x="0" y="0" width="100" height="8" {}
            @if more > 0 { rect.more x="0" y="0" width=(width(part + more)) height="8" {} }
            rect.part x="0" y="0" width=(width(part)) height="8" {}
        }
    }
}

/// Draws how full a bucket is relative to its target: filled places first, then reserved ones.
pub(super) fn fill(bucket: &BucketFill) -> Markup {
    let (filled, reserved, target) = (i64::from(bucket.filled), i64::from(bucket.reserved), i64::from(bucket.target));
    let description = format!("{} filled and {} held of {}", number(filled), number(reserved), number(target));
    bar(&description, filled, reserved, target)
}

/// Returns one entry per minute, including minutes without events.
fn slots(minutes: &[MinuteCounts], now: Timestamp) -> Vec<MinuteCounts> {
    let this_minute = now.as_second() - now.as_second().rem_euclid(60);
    let slot = |ago: i64| {
        let minute = Timestamp::from_second(this_minute).unwrap_or(now) - SignedDuration::from_mins(ago);
        let counted = minutes.iter().find(|one| one.minute == minute).cloned();
        counted.unwrap_or(MinuteCounts { minute, events: 0, started: 0, completed: 0 })
    };
    (0..i64::from(MINUTES_SHOWN)).rev().map(slot).collect()
}

/// Returns a readable upper end for a scale: 4, 8, 20, 40, 80, 200 …
fn scale_top(max: i64) -> i64 {
    let mut top = LINES;
    for factor in [2, 5].into_iter().cycle().take(60) {
        if top >= max {
            break;
        }
        // 4 → 8 → 20 → 40 → 80 → 200
        top = match factor {
            2 => top.saturating_mul(2),
            _ => top.saturating_mul(5) / 2,
        };
    }
    top
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567"), (100_000, "100,000")];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn every_minute_has_a_slot_and_no_bar_is_taller_than_the_chart() {
        let now: Timestamp = "2026-01-01T12:00:30Z".parse().unwrap();
        let minute =
            |text: &str, completed| MinuteCounts { minute: text.parse().unwrap(), events: 0, started: 0, completed };
        let minutes = [minute("2026-01-01T11:01:00Z", 3), minute("2026-01-01T12:00:00Z", 1_234)];
        let slots = slots(&minutes, now);
        assert_eq!((slots.len(), slots[0].completed, slots[59].completed), (60, 3, 1_234));
        let svg = per_minute(&minutes, now).into_string();
        assert!(svg.contains("1,237 completed") && svg.contains("1,234, at 12:00 UTC"), "{svg}");
        assert!(!svg.contains("style=") && !svg.contains("height=\"-"), "{svg}");
    }

    #[test]
    fn scales_end_at_round_numbers_above_all_values() {
        for max in [0, 1, 4, 5, 9, 21, 81, 1_000, 123_456] {
            let top = scale_top(max);
            assert!(top >= max && top % LINES == 0 && top < (max.max(1) * 4).max(5), "{max}: {top}");
        }
    }
}
