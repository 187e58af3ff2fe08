//! Reads the fields of a payload and reports all errors at once.

use crate::model::AllocationHints;
use crate::payments::events::PaymentMethod;
use jiff::civil::Date;
use onceward_money::{Currency, Decimal, Minor, MoneyError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

/// One error: its location, as a JSON pointer, and the rule that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidField {
    pub path: String,
    pub message: String,
}

/// The longest transaction id of a gateway.
const TXN_MAX: usize = 255;

/// An object that is being read. An invalid field is recorded as an error and reads as `None`.
pub(crate) struct PayloadReader<'v> {
    fields: Option<&'v Map<String, Value>>,
    errors: Vec<InvalidField>,
}

impl<'v> PayloadReader<'v> {
    pub(crate) fn new(payload: &'v Value) -> Self {
        let mut reader = Self { fields: payload.as_object(), errors: Vec::new() };
        if reader.fields.is_none() {
            reader.reject("", "must be an object");
        }
        reader
    }

    /// Returns `value` if there were no errors. `value` may only be `None` after an error.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, Vec<InvalidField>> {
        match value {
            Some(value) if self.errors.is_empty() => Ok(value),
            _ => Err(self.errors),
        }
    }

    /// Records an error of `field`, which is a name or a JSON pointer.
    pub(crate) fn reject(&mut self, field: &str, message: impl Into<String>) {
        let path = if field.is_empty() || field.starts_with('/') { field.to_owned() } else { format!("/{field}") };
        self.errors.push(InvalidField { path, message: message.into() });
    }

    /// Returns a field that is present and not `null`. Empty text, as in a CSV file, counts as absent.
    pub(crate) fn get(&self, field: &str) -> Option<&'v Value> {
        self.fields?.get(field).filter(|value| !value.is_null() && value.as_str() != Some(""))
    }

    /// Reads required text.
    pub(crate) fn text(&mut self, field: &str) -> Option<&'v str> {
        match self.get(field) {
            Some(Value::String(text)) => return Some(text),
            Some(_) => self.reject(field, "must be text"),
            None => self.reject(field, "is required"),
        }
        None
    }

    /// Reads the gateway's id of the payment.
    pub(crate) fn transaction(&mut self, field: &str) -> Option<String> {
        let text = self.text(field)?;
        let printable = !text.chars().any(char::is_control) && text.trim() == text;
        if !printable || text.chars().count() > TXN_MAX {
            self.reject(field, format!("must have 1 to {TXN_MAX} printable characters, without spaces at the ends"));
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads the id of a loan.
    pub(crate) fn loan(&mut self, field: &str) -> Option<Uuid> {
        let text = self.text(field)?;
        let id = Uuid::try_parse(text).ok();
        if id.is_none() {
            self.reject(field, "must be the id of a loan, a UUID");
        }
        id
    }

    /// Reads a currency; USD by default.
    pub(crate) fn currency(&mut self, field: &str) -> Option<Currency> {
        if self.get(field).is_none() {
            return Some(Currency::USD);
        }
        let currency = self.text(field)?.parse().ok();
        if currency.is_none() {
            self.reject(field, "must be the three capital letters of a currency, such as USD");
        }
        currency
    }

    /// Reads a payment method, if present.
    pub(crate) fn method(&mut self, field: &str, default: PaymentMethod) -> Option<PaymentMethod> {
        let expected = "must be one of ach, card, wire, check, cash, other";
        self.optional(field, expected).map(|method| method.unwrap_or(default))
    }

    /// Reads a day, if present.
    pub(crate) fn day(&mut self, field: &str) -> Option<Option<Date>> {
        self.optional(field, "must be a day such as 2026-01-31")
    }

    /// Reads `{"bucket": "principal"}`, if present, with all other keys.
    pub(crate) fn hints(&mut self, field: &str) -> Option<Map<String, Value>> {
        match self.get(field) {
            None => Some(Map::new()),
            Some(Value::Object(hints)) => {
                if let Err(error) = serde_json::from_value::<AllocationHints>(Value::Object(hints.clone())) {
                    self.reject(field, error.to_string());
                    return None;
                }
                Some(hints.clone())
            }
            Some(_) => {
                self.reject(field, "must be an object");
                None
            }
        }
    }

    /// Reads minor units, as a string of digits.
    pub(crate) fn minor(&mut self, field: &str) -> Option<Minor> {
        let read = match self.get(field) {
            Some(Value::String(text)) => text.parse::<Minor>(),
            Some(Value::Number(_)) => {
                self.reject(field, "must be text, not a number, so that no digit is lost");
                return None;
            }
            _ => Err(MoneyError::NotMinor),
        };
        self.positive(field, read)
    }

    /// Reads whole units with as many decimals as the currency has, as text.
    pub(crate) fn decimal(&mut self, field: &str, currency: Currency) -> Option<Minor> {
        let text = match self.get(field) {
            Some(Value::String(text)) => text.as_str(),
            Some(Value::Number(_)) => {
                self.reject(field, "must be text, not a number, so that no digit is lost");
                return None;
            }
            Some(_) => {
                self.reject(field, "must be an amount as text, such as \"12.34\"");
                return None;
            }
            None => {
                self.reject(field, "is required");
                return None;
            }
        };
        self.positive(field, decimal(text, currency))
    }

    fn positive(&mut self, field: &str, read: Result<Minor, MoneyError>) -> Option<Minor> {
        match read {
            Ok(amount) if amount.is_positive() => return Some(amount),
            Ok(_) => self.reject(field, "must be greater than 0"),
            Err(error) => self.reject(field, error.to_string()),
        }
        None
    }

    fn optional<T: DeserializeOwned>(&mut self, field: &str, expected: &str) -> Option<Option<T>> {
        let Some(value) = self.get(field) else {
            return Some(None);
        };
        match T::deserialize(value) {
            Ok(read) => Some(Some(read)),
            Err(_) => {
                self.reject(field, expected);
                None
            }
        }
    }
}

/// Parses an amount such as `12.34`: digits, and optionally a point and more digits. Other formats are ambiguous.
fn decimal(text: &str, currency: Currency) -> Result<Minor, MoneyError> {
    let plain = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = plain.split_once('.').unwrap_or((plain, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(MoneyError::NotMinor);
    }
    let decimal: Decimal = text.parse().map_err(|_| MoneyError::Overflow)?;
    // A number with more digits than a decimal can hold is rounded when it is parsed, so the digits are checked in the
    // text.
    if part.trim_end_matches('0').len() > currency.minor_digits() as usize {
        return Err(MoneyError::NotRepresentable);
    }
    Minor::from_decimal(decimal, currency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(amount: Value) -> Result<Minor, Vec<InvalidField>> {
        let payload = json!({ "amount": amount });
        let mut fields = PayloadReader::new(&payload);
        let amount = fields.decimal("amount", Currency::USD);
        fields.finish(amount)
    }

    #[test]
    fn amounts_are_read_exactly_or_rejected() {
        for (text, cents) in [("12.34", 1234), ("0.01", 1), ("7", 700), ("5.1", 510), ("12.3400", 1234), ("007", 700)] {
            assert_eq!(read(json!(text)), Ok(Minor::new(cents)), "{text}");
        }
        let largest = "92233720368547758.07";
        assert_eq!(read(json!(largest)), Ok(Minor::MAX));
        for wrong in [
            json!("0"),
            json!("0.00"),
            json!("-5"),
            json!("12.345"),
            json!("92233720368547758.08"),
            json!("1e3"),
            json!(""),
            json!("1_000"),
            json!("1,000.00"),
            json!(" 5"),
            json!("+5"),
            json!(".5"),
            json!("5."),
            json!("NaN"),
            json!("١٢"),
            json!(12.34),
            json!(12),
            json!(null),
            json!([]),
            json!("0.000000000000000000000000000000000000000000001"),
            json!("99999999999999999999999999999999999999999999999999"),
        ] {
            let errors = read(wrong.clone()).expect_err("it is not an amount");
            assert_eq!(errors.len(), 1, "{wrong}: {errors:?}");
            assert_eq!(errors[0].path, "/amount");
        }
        assert!(read(json!(12.34)).unwrap_err()[0].message.contains("text"));
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let payload = json!({"txn_id": " a", "loan_id": "7", "currency": "usd", "on": "31.1.2026", "how": "gold"});
        let mut fields = PayloadReader::new(&payload);
        fields.transaction("txn_id");
        fields.loan("loan_id");
        fields.currency("currency");
        fields.day("on");
        fields.method("how", PaymentMethod::Other);
        fields.text("missing");
        let errors = fields.finish(Some(())).expect_err("all fields are invalid");
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["/txn_id", "/loan_id", "/currency", "/on", "/how", "/missing"]);
    }

    #[test]
    fn a_hint_for_an_unknown_bucket_is_rejected_and_other_hints_are_kept() {
        let payload = json!({"good": {"bucket": "principal", "note": "x"}, "bad": {"bucket": "unknown"}});
        let mut fields = PayloadReader::new(&payload);
        assert_eq!(fields.hints("good").map(Value::Object), Some(payload["good"].clone()));
        assert_eq!(fields.hints("none"), Some(Map::new()));
        assert_eq!(fields.hints("bad"), None);
        assert!(fields.finish(Some(())).unwrap_err()[0].message.contains("fees_due"));
    }
}
