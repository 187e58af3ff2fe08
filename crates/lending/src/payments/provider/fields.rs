//! Reading the fields of a payload, so that everything that is wrong with it is told at once.

use crate::model::Hints;
use crate::payments::events::PaymentMethod;
use jiff::civil::Date;
use onceward_money::{Currency, Decimal, Minor, MoneyError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

/// One thing that is wrong: where, as a JSON pointer, and what must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub path: String,
    pub message: String,
}

/// The longest id of a gateway's transaction.
const TXN_MAX: usize = 255;

/// An object that is being read. A field that is wrong is noted and reads as nothing.
pub(crate) struct Fields<'v> {
    fields: Option<&'v Map<String, Value>>,
    wrong: Vec<Wrong>,
}

impl<'v> Fields<'v> {
    pub(crate) fn of(payload: &'v Value) -> Self {
        let mut fields = Self { fields: payload.as_object(), wrong: Vec::new() };
        if fields.fields.is_none() {
            fields.refuse("", "must be an object");
        }
        fields
    }

    /// `value`, unless anything was wrong. It is only `None` if something was.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, Vec<Wrong>> {
        match value {
            Some(value) if self.wrong.is_empty() => Ok(value),
            _ => Err(self.wrong),
        }
    }

    pub(crate) fn refuse(&mut self, field: &str, message: impl Into<String>) {
        let path = if field.is_empty() || field.starts_with('/') { field.to_owned() } else { format!("/{field}") };
        self.wrong.push(Wrong { path, message: message.into() });
    }

    /// A field that is there and not `null`. Empty text, as a CSV has it, is not there.
    pub(crate) fn get(&self, field: &str) -> Option<&'v Value> {
        self.fields?.get(field).filter(|value| !value.is_null() && value.as_str() != Some(""))
    }

    pub(crate) fn text(&mut self, field: &str) -> Option<&'v str> {
        match self.get(field) {
            Some(Value::String(text)) => return Some(text),
            Some(_) => self.refuse(field, "must be text"),
            None => self.refuse(field, "is required"),
        }
        None
    }

    /// The gateway's id of the payment.
    pub(crate) fn transaction(&mut self, field: &str) -> Option<String> {
        let text = self.text(field)?;
        let printable = !text.chars().any(char::is_control) && text.trim() == text;
        if !printable || text.chars().count() > TXN_MAX {
            self.refuse(field, format!("must have 1 to {TXN_MAX} printable characters, without spaces at the ends"));
            return None;
        }
        Some(text.to_owned())
    }

    pub(crate) fn loan(&mut self, field: &str) -> Option<Uuid> {
        let text = self.text(field)?;
        let id = Uuid::try_parse(text).ok();
        if id.is_none() {
            self.refuse(field, "must be the id of a loan, a UUID");
        }
        id
    }

    /// A currency; USD where there is none.
    pub(crate) fn currency(&mut self, field: &str) -> Option<Currency> {
        if self.get(field).is_none() {
            return Some(Currency::USD);
        }
        let currency = self.text(field)?.parse().ok();
        if currency.is_none() {
            self.refuse(field, "must be the three capital letters of a currency, such as USD");
        }
        currency
    }

    pub(crate) fn method(&mut self, field: &str, otherwise: PaymentMethod) -> Option<PaymentMethod> {
        let expected = "must be one of ach, card, wire, check, cash, other";
        self.optional(field, expected).map(|method| method.unwrap_or(otherwise))
    }

    /// A day, if there is one.
    pub(crate) fn day(&mut self, field: &str) -> Option<Option<Date>> {
        self.optional(field, "must be a day such as 2026-01-31")
    }

    /// `{"bucket": "principal"}`, if there is one, with whatever else it holds.
    pub(crate) fn hints(&mut self, field: &str) -> Option<Map<String, Value>> {
        match self.get(field) {
            None => Some(Map::new()),
            Some(Value::Object(hints)) => {
                if let Err(error) = serde_json::from_value::<Hints>(Value::Object(hints.clone())) {
                    self.refuse(field, error.to_string());
                    return None;
                }
                Some(hints.clone())
            }
            Some(_) => {
                self.refuse(field, "must be an object");
                None
            }
        }
    }

    /// Minor units, as text of digits.
    pub(crate) fn minor(&mut self, field: &str) -> Option<Minor> {
        let read = match self.get(field) {
            Some(Value::String(text)) => text.parse::<Minor>(),
            Some(Value::Number(_)) => {
                self.refuse(field, "is a number: send amounts as text, so that no digit is lost");
                return None;
            }
            _ => Err(MoneyError::NotMinor),
        };
        self.positive(field, read)
    }

    /// Whole units with as many decimals as the currency has, as text.
    pub(crate) fn decimal(&mut self, field: &str, currency: Currency) -> Option<Minor> {
        let text = match self.get(field) {
            Some(Value::String(text)) => text.as_str(),
            Some(Value::Number(_)) => {
                self.refuse(field, "is a number: send amounts as text, so that no digit is lost");
                return None;
            }
            Some(_) => {
                self.refuse(field, "must be an amount as text, such as \"12.34\"");
                return None;
            }
            None => {
                self.refuse(field, "is required");
                return None;
            }
        };
        self.positive(field, decimal(text, currency))
    }

    fn positive(&mut self, field: &str, read: Result<Minor, MoneyError>) -> Option<Minor> {
        match read {
            Ok(amount) if amount.is_positive() => return Some(amount),
            Ok(_) => self.refuse(field, "must be above 0"),
            Err(error) => self.refuse(field, error.to_string()),
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
                self.refuse(field, expected);
                None
            }
        }
    }
}

/// An amount such as `12.34`: digits, and perhaps a point and more digits. Nothing else reads the same everywhere.
fn decimal(text: &str, currency: Currency) -> Result<Minor, MoneyError> {
    let plain = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = plain.split_once('.').unwrap_or((plain, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(MoneyError::NotMinor);
    }
    let decimal: Decimal = text.parse().map_err(|_| MoneyError::Overflow)?;
    // A number with more digits than a decimal holds is rounded when it is read, so its last ones are compared.
    if part.trim_end_matches('0').len() > currency.minor_digits() as usize {
        return Err(MoneyError::NotRepresentable);
    }
    Minor::from_decimal(decimal, currency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(amount: Value) -> Result<Minor, Vec<Wrong>> {
        let payload = json!({ "amount": amount });
        let mut fields = Fields::of(&payload);
        let amount = fields.decimal("amount", Currency::USD);
        fields.finish(amount)
    }

    #[test]
    fn amounts_are_read_to_the_cent_or_refused() {
        for (text, cents) in [("12.34", 1234), ("0.01", 1), ("7", 700), ("5.1", 510), ("12.3400", 1234), ("007", 700)] {
            assert_eq!(read(json!(text)), Ok(Minor::new(cents)), "{text}");
        }
        let most = "92233720368547758.07";
        assert_eq!(read(json!(most)), Ok(Minor::MAX));
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
            let refused = read(wrong.clone()).expect_err("it is no amount");
            assert_eq!(refused.len(), 1, "{wrong}: {refused:?}");
            assert_eq!(refused[0].path, "/amount");
        }
        assert!(read(json!(12.34)).unwrap_err()[0].message.contains("text"));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let payload = json!({"txn_id": " a", "loan_id": "7", "currency": "usd", "on": "31.1.2026", "how": "gold"});
        let mut fields = Fields::of(&payload);
        fields.transaction("txn_id");
        fields.loan("loan_id");
        fields.currency("currency");
        fields.day("on");
        fields.method("how", PaymentMethod::Other);
        fields.text("missing");
        let wrong = fields.finish(Some(())).expect_err("all of it is wrong");
        let paths: Vec<&str> = wrong.iter().map(|wrong| wrong.path.as_str()).collect();
        assert_eq!(paths, ["/txn_id", "/loan_id", "/currency", "/on", "/how", "/missing"]);
    }

    #[test]
    fn a_hint_for_a_bucket_that_is_none_is_refused_and_other_hints_are_kept() {
        let payload = json!({"good": {"bucket": "principal", "note": "x"}, "bad": {"bucket": "beer"}});
        let mut fields = Fields::of(&payload);
        assert_eq!(fields.hints("good").map(Value::Object), Some(payload["good"].clone()));
        assert_eq!(fields.hints("none"), Some(Map::new()));
        assert_eq!(fields.hints("bad"), None);
        assert!(fields.finish(Some(())).unwrap_err()[0].message.contains("fees_due"));
    }
}
