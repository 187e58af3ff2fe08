//! How amounts of money and dates are printed, and the filters that templates may use.
//!
//! The list of filters is short on purpose. `default` is not among them, because it would hide a misspelt name; a
//! default belongs to the declaration of the variable.

use jiff::civil::Date;
use minijinja::{Environment, Error, ErrorKind, Value as EngineValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::value::{DateValue, MoneyValue};

/// A filter: its name, and the arguments that it accepts.
pub(super) struct FilterRule {
    pub name: &'static str,
    pub styles: &'static [&'static str],
}

/// The filters that a template may use.
pub(super) const FILTERS: &[FilterRule] = &[
    FilterRule { name: "upper", styles: &[] },
    FilterRule { name: "lower", styles: &[] },
    FilterRule { name: "title", styles: &[] },
    FilterRule { name: "trim", styles: &[] },
    FilterRule { name: "length", styles: &[] },
    FilterRule { name: "urlencode", styles: &[] },
    FilterRule { name: "money", styles: &["symbol", "code", "number"] },
    FilterRule { name: "date", styles: &["long", "short", "iso"] },
];

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Adds [`FILTERS`] to an environment that has none.
pub(super) fn add_filters(environment: &mut Environment<'_>) {
    environment.add_filter("upper", |text: String| text.to_uppercase());
    environment.add_filter("lower", |text: String| text.to_lowercase());
    environment.add_filter("title", |text: String| title_case(&text));
    environment.add_filter("trim", |text: String| text.trim().to_owned());
    environment.add_filter("length", |list: EngineValue| list.len().unwrap_or_default());
    environment
        .add_filter("urlencode", |value: EngineValue| utf8_percent_encode(&value.to_string(), UNRESERVED).to_string());
    environment.add_filter("money", |value: EngineValue, style: Option<String>| {
        let money = value.downcast_object_ref::<MoneyValue>().ok_or_else(|| wrong_kind("money"))?;
        Ok::<_, Error>(format_money(&money.amount_minor, &money.currency, style.as_deref()))
    });
    environment.add_filter("date", |value: EngineValue, style: Option<String>| {
        let date = value.downcast_object_ref::<DateValue>().ok_or_else(|| wrong_kind("date"))?;
        Ok::<_, Error>(format_date(date.0, style.as_deref()))
    });
}

fn wrong_kind(filter: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{filter} needs a variable of that kind"))
}

fn title_case(text: &str) -> String {
    let mut begins_word = true;
    let letters = text.chars().flat_map(|letter| {
        let cased: Vec<char> =
            if begins_word { letter.to_uppercase().collect() } else { letter.to_lowercase().collect() };
        // An apostrophe does not begin a word: "o'brien's" has one capital.
        begins_word = !letter.is_alphanumeric() && letter != '\'' && letter != '\u{2019}';
        cased
    });
    letters.collect()
}

/// Formats an amount in minor units: `$1,234.56` (style `symbol`), `1,234.56 USD` (`code`) or `1,234.56` (`number`).
pub(super) fn format_money(amount_minor: &str, currency: &str, style: Option<&str>) -> String {
    let (sign, digits) = match amount_minor.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", amount_minor),
    };
    let places = decimal_places(currency);
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        significant => significant,
    };
    let point = if places > 0 { "." } else { "" };
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    let sign = if is_zero { "" } else { sign };
    let number = format!("{}{point}{fraction}", grouped(whole));
    match (style, currency) {
        (Some("number"), _) => format!("{sign}{number}"),
        (Some("code"), _) => format!("{sign}{number} {currency}"),
        (_, "USD") => format!("{sign}${number}"),
        (_, "EUR") => format!("{sign}€{number}"),
        (_, "GBP") => format!("{sign}£{number}"),
        _ => format!("{sign}{number} {currency}"),
    }
}

fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns how many decimal places the currency has, by ISO 4217.
fn decimal_places(currency: &str) -> usize {
    match currency {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "VND" | "VUV"
        | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        _ => 2,
    }
}

/// Formats a date: `November 5, 2026` (style `long`), `Nov 5, 2026` (`short`) or `2026-11-05` (`iso`).
pub(super) fn format_date(date: Date, style: Option<&str>) -> String {
    let month = MONTHS.get(usize::from(date.month().unsigned_abs()).wrapping_sub(1)).copied().unwrap_or_default();
    match style {
        Some("iso") => date.to_string(),
        Some("short") => format!("{} {}, {}", &month[..3.min(month.len())], date.day(), date.year()),
        _ => format!("{month} {}, {}", date.day(), date.year()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_printed_with_the_decimal_places_of_their_currency() {
        for (amount, currency, style, printed) in [
            ("123456", "USD", None, "$1,234.56"),
            ("5", "USD", None, "$0.05"),
            ("-123456789", "EUR", None, "-€1,234,567.89"),
            ("1234567", "VND", None, "1,234,567 VND"),
            ("1234", "KWD", Some("code"), "1.234 KWD"),
            ("000", "USD", Some("number"), "0.00"),
            ("-0", "GBP", None, "£0.00"),
        ] {
            assert_eq!(format_money(amount, currency, style), printed);
        }
    }

    #[test]
    fn dates_are_printed_in_three_styles() {
        let date = Date::constant(2026, 11, 5);
        assert_eq!(format_date(date, None), "November 5, 2026");
        assert_eq!(format_date(date, Some("short")), "Nov 5, 2026");
        assert_eq!(format_date(date, Some("iso")), "2026-11-05");
    }

    #[test]
    fn an_apostrophe_does_not_begin_a_word() {
        assert_eq!(title_case("mary o'brien-smith's LOAN"), "Mary O'brien-Smith's Loan");
    }
}
