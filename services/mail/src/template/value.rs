//! The values of variables: checking them against their kind, converting them for the engine, and inventing samples.

use std::fmt;
use std::sync::Arc;

use jiff::civil::Date;
use minijinja::Value as EngineValue;
use minijinja::value::{Object, ObjectRepr};
use serde_json::{Map, Value, json};

use super::declaration::{VariableDeclaration, VariableKind};
use super::format::{format_date, format_money};
use super::problem::{VariableProblem, nearest};

/// The longest text that a variable may have.
pub(super) const MAX_TEXT_CHARS: usize = 10_000;
/// The longest list that a variable may have.
pub(super) const MAX_ITEMS: usize = 100;
const MAX_URL_BYTES: usize = 2_000;
const MAX_AMOUNT_DIGITS: usize = 30;

/// An amount of money, printed as [`format_money`] formats it unless a filter is applied.
#[derive(Debug)]
pub(super) struct MoneyValue {
    pub amount_minor: String,
    pub currency: String,
}

/// A date, printed as [`format_date`] formats it unless a filter is applied.
#[derive(Debug)]
pub(super) struct DateValue(pub Date);

impl Object for MoneyValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&format_money(&self.amount_minor, &self.currency, None))
    }
}

impl Object for DateValue {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&format_date(self.0, None))
    }
}

/// Reports why a value is not of its kind; an empty list means that it is.
pub(super) fn check_value(path: &str, kind: &VariableKind, value: &Value) -> Vec<VariableProblem> {
    let wrong = |message: String| vec![VariableProblem::new(path, message)];
    match (kind, value) {
        (_, Value::Null) => wrong("The value is null: provide one, or declare a default.".into()),
        (VariableKind::Text, Value::String(text)) => check_text(text).map_or(Vec::new(), wrong),
        (VariableKind::Integer, Value::Number(number)) if number.is_i64() => Vec::new(),
        (VariableKind::Money, Value::Object(object)) if money(object).is_some() => Vec::new(),
        (VariableKind::Date, Value::String(text)) if date(text).is_some() => Vec::new(),
        (VariableKind::Boolean, Value::Bool(_)) => Vec::new(),
        (VariableKind::Url, Value::String(text)) if is_allowed_url(text) => Vec::new(),
        (VariableKind::List { fields }, Value::Array(items)) if items.len() <= MAX_ITEMS => {
            let each = items.iter().enumerate();
            each.flat_map(|(index, item)| check_item(&format!("{path}[{index}]"), fields, item)).collect()
        }
        (VariableKind::List { .. }, Value::Array(_)) => wrong(format!("The list has more than {MAX_ITEMS} items.")),
        (kind, _) => wrong(format!("The value must be {}.", kind.describe())),
    }
}

fn check_item(
    path: &str,
    fields: &std::collections::BTreeMap<String, VariableKind>,
    item: &Value,
) -> Vec<VariableProblem> {
    let Value::Object(item) = item else {
        return vec![VariableProblem::new(path, "The item must be an object.")];
    };
    let mut problems = Vec::new();
    for (field, kind) in fields {
        let path = format!("{path}.{field}");
        match item.get(field) {
            Some(value) => problems.extend(check_value(&path, kind, value)),
            None => problems.push(VariableProblem::new(path, "The field is missing: every item needs it.")),
        }
    }
    for unknown in item.keys().filter(|key| !fields.contains_key(*key)) {
        problems.push(unknown_variable(&format!("{path}.{unknown}"), unknown, fields.keys().map(String::as_str)));
    }
    problems
}

/// Returns the problem of a name that is not declared, with the nearest declared one.
pub(super) fn unknown_variable<'a>(path: &str, name: &str, declared: impl Iterator<Item = &'a str>) -> VariableProblem {
    let hint = nearest(name, declared).map(|nearest| format!(" Did you mean `{nearest}`?")).unwrap_or_default();
    VariableProblem::new(path, format!("The template declares no such variable.{hint}"))
}

fn check_text(text: &str) -> Option<String> {
    if text.chars().count() > MAX_TEXT_CHARS {
        return Some(format!("The text is longer than {MAX_TEXT_CHARS} characters."));
    }
    let refused = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    text.contains(refused).then(|| "The text contains a control character: remove it.".into())
}

fn date(text: &str) -> Option<Date> {
    // jiff also accepts forms such as `20261105`; one form is enough, so that a value has one spelling.
    text.parse::<Date>().ok().filter(|date| date.to_string() == text && date.year() >= 1)
}

/// Returns the amount and the currency, if the object is an amount of money.
fn money(object: &Map<String, Value>) -> Option<(&str, &str)> {
    let amount = object.get("amountMinor")?.as_str()?;
    let currency = object.get("currency")?.as_str()?;
    let digits = amount.strip_prefix('-').unwrap_or(amount);
    let is_amount = (1..=MAX_AMOUNT_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_currency = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    (object.len() == 2 && is_amount && is_currency).then_some((amount, currency))
}

/// Returns true for the two schemes that a mail may link to, without white space or control characters.
pub(super) fn is_allowed_url(url: &str) -> bool {
    let after = |scheme: &str| {
        let begins = url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
        begins && url.len() > scheme.len()
    };
    let refused =
        |letter: char| letter.is_control() || letter.is_whitespace() || matches!(letter, '<' | '>' | '"' | '\\');
    url.len() <= MAX_URL_BYTES && (after("https://") || after("mailto:")) && !url.contains(refused)
}

/// Converts a value that [`check_value`] accepted.
pub(super) fn engine_value(kind: &VariableKind, value: &Value) -> EngineValue {
    match (kind, value) {
        (VariableKind::Money, Value::Object(object)) => match money(object) {
            Some((amount, currency)) => {
                EngineValue::from_object(MoneyValue { amount_minor: amount.to_owned(), currency: currency.to_owned() })
            }
            None => EngineValue::UNDEFINED,
        },
        (VariableKind::Date, Value::String(text)) => {
            date(text).map_or(EngineValue::UNDEFINED, |date| EngineValue::from_object(DateValue(date)))
        }
        (VariableKind::List { fields }, Value::Array(items)) => {
            items.iter().map(|item| engine_item(fields, item)).collect()
        }
        (_, Value::String(text)) => EngineValue::from(text.as_str()),
        (_, Value::Bool(truth)) => EngineValue::from(*truth),
        (_, Value::Number(number)) => EngineValue::from(number.as_i64().unwrap_or_default()),
        _ => EngineValue::UNDEFINED,
    }
}

fn engine_item(fields: &std::collections::BTreeMap<String, VariableKind>, item: &Value) -> EngineValue {
    let field = |(name, kind): (&String, &VariableKind)| {
        (name.clone(), item.get(name).map_or(EngineValue::UNDEFINED, |value| engine_value(kind, value)))
    };
    EngineValue::from_pairs(fields.iter().map(field))
}

/// Returns a value for previews: the example, the default, or an invented one.
pub(super) fn sample(declaration: &VariableDeclaration) -> Value {
    let given = declaration.example.as_ref().or(declaration.default.as_ref());
    given.cloned().unwrap_or_else(|| invented(&declaration.name, &declaration.kind))
}

fn invented(name: &str, kind: &VariableKind) -> Value {
    match kind {
        VariableKind::Text => {
            let last = name.rsplit('.').next().unwrap_or(name);
            Value::String(format!("[{}]", last.replace('_', " ")))
        }
        VariableKind::Integer => json!(3),
        VariableKind::Money => json!({"amountMinor": "123456", "currency": "USD"}),
        VariableKind::Date => json!("2026-11-05"),
        VariableKind::Boolean => json!(true),
        VariableKind::Url => json!("https://example.com/"),
        VariableKind::List { fields } => {
            let item: Map<String, Value> =
                fields.iter().map(|(field, kind)| (field.clone(), invented(field, kind))).collect();
            json!([item, item])
        }
    }
}
