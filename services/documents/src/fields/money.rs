//! Finds amounts of money, exactly or not at all.
//!
//! One format is read: commas group thousands, and a point precedes the currency's decimals: `1,234.56`. A whole number
//! counts only next to a currency. Everything else that looks like money (`1.234,56`, `12,5`, `(100.00)`) is listed as
//! unclear.

use super::{AmountField, DocumentFields, UnclearField, label};
use onceward_money::{Currency, Minor};
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// The accepted currency codes. Any other three capital letters may mean something else.
const CODES: &str = "USD|EUR|GBP|CAD|AUD|NZD|CHF|JPY|CNY|INR|SGD|HKD|SEK|NOK|DKK|PLN|CZK|MXN|BRL|ZAR|KRW|VND";

static CANDIDATE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r"(?x)
        (?: (?P<lead>[-\u{{2212}}])? (?P<before> \b(?:{CODES})[\ \t\u{{a0}}]*\$? | US\$ | [$€£¥] ) )? [\ \t\u{{a0}}]*
        (?P<open>\()? (?P<sign>[-\u{{2212}}])? (?P<inner>\$)? (?P<number>\d(?:[\d.,'\u{{2019}}]*\d)?) (?P<close>\))?
        (?: [\ \t\u{{a0}}]* (?P<after> (?:{CODES})\b | [€£] ) )?"
    );
    Regex::new(&pattern).expect("the pattern is covered by tests")
});
static DATE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\d{1,4}\.\d{1,2}\.\d{2,4}$").expect("the pattern is covered by tests"));
static READABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<rest>\d+))?$").expect("the pattern is covered by tests")
});

pub(super) fn find(text: &str, page: u32, fields: &mut DocumentFields) {
    for found in CANDIDATE.captures_iter(text) {
        let number = found.name("number").expect("a candidate has a number");
        let named = found.name("before").or(found.name("inner")).or(found.name("after")).is_some();
        if !stands_alone(text, number.start(), number.end(), &found) || !(named || looks_like_money(number.as_str())) {
            continue;
        }
        let matched = found[0].trim().to_owned();
        match check_surroundings(text, &found).and_then(|()| amount(&found)) {
            Ok((minor, currency)) => {
                let start = found.get(0).map_or(0, |all| all.start());
                fields.amounts.push(AmountField { text: matched, minor, currency, label: label(text, start), page });
            }
            Err(reason) => fields.unclear.push(UnclearField { what: "amount", text: matched, reason, page }),
        }
    }
}

/// Returns whether the number is not part of a word, a longer number or a date, and not a percentage.
fn stands_alone(text: &str, start: usize, end: usize, found: &Captures<'_>) -> bool {
    let before = text[..start].chars().next_back();
    let after = text[end..].chars().next();
    let word = |character: char| character.is_alphanumeric() || matches!(character, '_' | '/' | '#');
    let joined = before.is_some_and(|character| word(character) && found.name("before").is_none())
        || after.is_some_and(|character| character.is_alphabetic() && found.name("after").is_none());
    let rest = text[end..].trim_start_matches([' ', '\u{a0}']);
    !joined && !rest.starts_with('%') && !rest.starts_with('/') && !DATE.is_match(&text[start..end])
}

/// Without a currency next to it, only a number that ends in two decimals counts as money.
fn looks_like_money(number: &str) -> bool {
    let cents = number.len().checked_sub(3).is_some_and(|index| matches!(number.as_bytes()[index], b'.' | b','));
    cents && number.bytes().filter(|byte| *byte == b'.').count() + number.matches(',').count() >= 1
}

/// Fails if the surrounding text makes it ambiguous where the number starts or ends, or whether it is negative.
fn check_surroundings(text: &str, found: &Captures<'_>) -> Result<(), &'static str> {
    if found.name("open").is_some() && found.name("close").is_some() {
        return Err("in parentheses: negative, or a remark");
    }
    let number = found.name("number").expect("a candidate has a number");
    if let Some(dash) = found.name("lead").or(found.name("sign"))
        && text[..dash.start()].ends_with(|character: char| character.is_alphanumeric())
    {
        return Err("preceded by a dash or a minus sign");
    }
    let after = &text[number.end()..];
    if after.strip_prefix('-').is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric())) {
        return Err("followed by a dash or a minus sign");
    }
    let before = text[..number.start()].strip_suffix(SPACES);
    let digits_before = before.is_some_and(|before| before.ends_with(|last: char| last.is_ascii_digit()));
    if digits_before && leading_digits(number.as_str()) == 3 {
        return Err("preceded by digits: one number or two");
    }
    if after.strip_prefix(SPACES).is_some_and(|rest| leading_digits(rest) == 3) {
        return Err("followed by digits: one number or two");
    }
    Ok(())
}

/// Spaces that group thousands in some countries: 1 234.56.
const SPACES: [char; 4] = [' ', '\u{a0}', '\u{2009}', '\u{202f}'];

fn leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn amount(found: &Captures<'_>) -> Result<(Minor, Option<Currency>), &'static str> {
    let group = |name: &str| found.name(name).map(|part| part.as_str());
    let currency = currency(group("before"), group("after"))?;
    let parts = READABLE.captures(&found["number"]).ok_or("not in the format 1,234.56")?;
    let whole = parts["whole"].replace(',', "");
    let places = currency.map_or(2, Currency::minor_digits) as usize;
    let rest = match parts.name("rest") {
        Some(rest) if rest.len() == places && places > 0 => rest.as_str().to_owned(),
        Some(_) => return Err("wrong number of decimals for its currency"),
        None => "0".repeat(places),
    };
    let sign = if found.name("sign").or(found.name("lead")).is_some() { "-" } else { "" };
    let minor = format!("{sign}{whole}{rest}").parse().map_err(|_| "larger than the largest supported amount")?;
    Ok((minor, currency))
}

fn currency(before: Option<&str>, after: Option<&str>) -> Result<Option<Currency>, &'static str> {
    let code = match (before.map_or(Ok(None), code)?, after.map_or(Ok(None), code)?) {
        (Some(before), Some(after)) if before != after => return Err("two different currencies"),
        (before, after) => before.or(after),
    };
    code.map(|code| code.parse().map_err(|_| "not a currency")).transpose()
}

/// `$` is used by many currencies; `¥` by two with different decimals.
fn code(sign: &str) -> Result<Option<&str>, &'static str> {
    match sign.trim_end_matches(['$', ' ', '\t', '\u{a0}']) {
        "" => Ok(None),
        "€" => Ok(Some("EUR")),
        "£" => Ok(Some("GBP")),
        "US" => Ok(Some("USD")),
        "¥" => Err("¥ is yen or yuan"),
        code => Ok(Some(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Vec<(String, i64, String)>, Vec<String>) {
        let mut fields = DocumentFields::default();
        find(text, 1, &mut fields);
        let amounts = fields.amounts.into_iter();
        let code = |currency: Option<Currency>| currency.map(|currency| currency.to_string()).unwrap_or_default();
        let amounts = amounts.map(|amount| (amount.text, amount.minor.get(), code(amount.currency))).collect();
        (amounts, fields.unclear.into_iter().map(|unclear| unclear.text).collect())
    }

    #[track_caller]
    fn reads(text: &str, minor: i64, currency: &str) {
        let (amounts, unclear) = read(text);
        assert_eq!(unclear, Vec::<String>::new(), "{text}");
        assert_eq!(
            amounts.iter().map(|(_, minor, code)| (*minor, code.as_str())).collect::<Vec<_>>(),
            [(minor, currency)]
        );
    }

    #[test]
    fn amounts_are_exact() {
        reads("1,234.56", 123_456, "");
        reads("Principal: $1,234.56", 123_456, "");
        reads("USD 1,234.56 due", 123_456, "USD");
        reads("US$ 0.01", 1, "USD");
        reads("1234.56 EUR", 123_456, "EUR");
        reads("€12.00", 1_200, "EUR");
        reads("$1,234", 123_400, "");
        reads("-$5.00", -500, "");
        reads("Fee - $5.00", 500, "");
        reads("$-5.00", -500, "");
        reads("JPY 1,234", 1_234, "JPY");
        reads("$92,233,720,368,547,758.07", i64::MAX, "");
        reads("between 10.00 and no more", 1_000, "");
    }

    #[test]
    fn unclear_amounts_are_listed_and_not_guessed() {
        for text in [
            "1.234,56",
            "€ 1.234,56",
            "12,50",
            "$10.5",
            "$10.005",
            "(1,234.56)",
            "$1,23,456.00",
            "JPY 12.50",
            "¥1,234",
            "USD 5.00 EUR",
            "$99,999,999,999,999,999.99",
            "CHF 1'234.50",
            "fee-5.00",
            "fee-$5.00",
            "5.00- ",
        ] {
            let (amounts, unclear) = read(text);
            assert_eq!((amounts.len(), unclear.len()), (0, 1), "{text}: {amounts:?}");
        }
    }

    #[test]
    fn numbers_grouped_by_spaces_are_never_read_in_part() {
        for text in ["1 234.56", "$1 234.56", "12\u{a0}345.00 EUR", "USD 1\u{202f}234"] {
            let (amounts, unclear) = read(text);
            assert!(amounts.is_empty() && !unclear.is_empty(), "{text}: {amounts:?}");
        }
    }

    #[test]
    fn other_numbers_are_ignored() {
        for text in ["7.25%", "3.5 %", "31.12.24", "2024-01-31", "12/31/2024", "LN-1234.56x", "A12.34", "page 7 of 12"]
        {
            assert_eq!(read(text), (Vec::new(), Vec::new()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_in_the_english_format_is_read_back(minor in 0_i64..=i64::MAX) {
            let digits = (minor / 100).to_string();
            let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap()).collect();
            let (amounts, unclear) = read(&format!("Total: ${}.{:02} only", groups.join(","), minor % 100));
            prop_assert_eq!(unclear, Vec::<String>::new());
            prop_assert_eq!(amounts.iter().map(|(_, minor, _)| *minor).collect::<Vec<_>>(), vec![minor]);
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            read(&text);
        }
    }
}
