//! Finds dates. An ambiguous date is listed as unclear.

use super::{DateField, DocumentFields, UnclearField, label};
use jiff::civil::Date;
use regex::Regex;
use std::sync::LazyLock;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

static CANDIDATE: LazyLock<Regex> = LazyLock::new(|| {
    let month = MONTHS.map(|month| format!("{}(?:{})?\\.?", &month[..3], &month[3..])).join("|").replace("(?:)?", "");
    let pattern = format!(
        r"(?ix)
          \b(?P<iso_y>\d{{4}})-(?P<iso_m>\d{{2}})-(?P<iso_d>\d{{2}})\b
        | \b(?P<m1>{month})\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y1>\d{{4}})\b
        | \b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+)?(?P<m2>{month}),?\s+(?P<y2>\d{{4}})\b
        | \b(?P<a>\d{{1,2}})(?P<sep>[/.])(?P<b>\d{{1,2}})[/.](?P<y3>\d{{4}}|\d{{2}})\b"
    );
    Regex::new(&pattern).expect("the pattern is covered by tests")
});

pub(super) fn find(text: &str, page: u32, fields: &mut DocumentFields) {
    for found in CANDIDATE.captures_iter(text) {
        let group = |name: &str| found.name(name).map(|part| part.as_str());
        let parsed = if let (Some(y), Some(m), Some(d)) = (group("iso_y"), group("iso_m"), group("iso_d")) {
            day(y, number(m), d)
        } else if let (Some(m), Some(d), Some(y)) = (group("m1"), group("d1"), group("y1")) {
            day(y, month(m), d)
        } else if let (Some(d), Some(m), Some(y)) = (group("d2"), group("m2"), group("y2")) {
            day(y, month(m), d)
        } else {
            let part = |name| group(name).unwrap_or_default();
            numbers(part("a"), part("sep"), part("b"), part("y3"))
        };
        let whole = found.get(0).expect("group 0 is the whole match");
        let date_text = whole.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
        match parsed {
            Ok(date) => fields.dates.push(DateField { text: date_text, date, label: label(text, whole.start()), page }),
            Err(reason) => fields.unclear.push(UnclearField { what: "date", text: date_text, reason, page }),
        }
    }
}

/// Parses a date written in numbers. With dots the day comes first. With slashes the order depends on the country,
/// unless one of the two numbers cannot be a month.
fn numbers(a: &str, separator: &str, b: &str, year: &str) -> Result<Date, &'static str> {
    if year.len() != 4 {
        return Err("two-digit year, century unknown");
    }
    let (first, second) = (number(a), number(b));
    match separator {
        "." => day(year, second, a),
        _ if first > 12 => day(year, second, a),
        _ if second > 12 || first == second => day(year, first, b),
        _ => Err("the order of day and month is ambiguous"),
    }
}

fn day(year: &str, month: i8, day: &str) -> Result<Date, &'static str> {
    let year = year.parse().unwrap_or(i16::MAX);
    Date::new(year, month, number(day)).map_err(|_| "no such date")
}

fn number(text: &str) -> i8 {
    text.parse().unwrap_or(i8::MAX)
}

fn month(name: &str) -> i8 {
    let name = name.to_lowercase();
    let index = MONTHS.iter().position(|month| name.starts_with(&month[..3]));
    index.and_then(|index| i8::try_from(index + 1).ok()).unwrap_or(i8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let mut fields = DocumentFields::default();
        find(text, 1, &mut fields);
        let dates = fields.dates.into_iter().map(|day| day.date.to_string()).collect();
        (dates, fields.unclear.into_iter().map(|unclear| unclear.text).collect())
    }

    #[test]
    fn unambiguous_dates_are_read() {
        for text in ["2024-03-05", "March 5, 2024", "5 March 2024", "5th of Mar. 2024", "mar 5 2024", "05.03.2024"] {
            assert_eq!(read(text), (vec!["2024-03-05".to_owned()], Vec::new()), "{text}");
        }
        assert_eq!(read("12/25/2024 25/12/2024 4/4/2024").0, ["2024-12-25", "2024-12-25", "2024-04-04"]);
        assert_eq!(read("May 1, 2024").0, ["2024-05-01"]);
    }

    #[test]
    fn ambiguous_and_invalid_dates_are_listed() {
        for text in ["03/05/2024", "2024-02-30", "3/5/24", "February 30, 2024", "40/40/2024"] {
            assert_eq!(read(text), (Vec::new(), vec![text.to_owned()]), "{text}");
        }
        assert_eq!(read("version 1.2.3, 10/2024, marching 5 2024"), (Vec::new(), Vec::new()));
    }
}
