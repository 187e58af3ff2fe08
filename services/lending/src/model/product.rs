//! The policy of a product. A loan keeps a copy, so a change of the product does not affect existing loans.

use super::day_count::{DayCount, YearFraction};
use super::escrow::EscrowPolicy;
use super::exact::{self, Exact};
use super::late_fee::LateFeePolicy;
use super::rounding::Rounding;
use super::rule_error::RuleError;
use super::waterfall::Waterfall;
use onceward_money::{Currency, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest term in months.
pub const MAX_TERM_MONTHS: u32 = 600;

/// The terms that all loans of a product share.
///
/// JSON is checked during deserialization; a value built in code must pass through [`checked`](Self::checked).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct ProductPolicy {
    /// The product's name within its tenant.
    pub code: String,
    /// The currency of all its amounts.
    pub currency: Currency,
    /// The nominal annual rate, 0 to 1.
    pub annual_rate: Rate,
    /// The convention that converts days to fractions of a year.
    pub day_count: DayCount,
    /// The number of monthly instalments, 1 to 600.
    pub term_months: u32,
    /// How the instalment and interest are rounded.
    #[serde(default)]
    pub rounding: Rounding,
    /// The order in which a payment pays what is due.
    #[serde(default)]
    pub waterfall: Waterfall,
    /// The use of money that exceeds what is due.
    #[serde(default)]
    pub prepayment: Prepayment,
    /// The charge for a late instalment.
    #[serde(default)]
    pub late_fee: LateFeePolicy,
    /// Whether and how taxes and insurance are collected.
    #[serde(default)]
    pub escrow: EscrowPolicy,
}

/// The use of money that exceeds what is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prepayment {
    /// Reduces the principal at once; only what exceeds the whole loan is held.
    #[default]
    ReducePrincipal,
    /// Holds the money in suspense (`future`) until something is due.
    Hold,
}

impl ProductPolicy {
    /// Returns the policy if a loan can be created from it, or the rule that it breaks.
    pub fn checked(self) -> Result<Self, RuleError> {
        self.check()?;
        Ok(self)
    }

    pub(super) fn check(&self) -> Result<(), RuleError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=64).contains(&self.code.len()) || !self.code.bytes().all(plain) {
            return Err(RuleError::ProductCode);
        }
        if exact::rate(self.annual_rate) > Exact::from_integer(1.into()) {
            return Err(RuleError::RateTooHigh(self.annual_rate));
        }
        if !(1..=MAX_TERM_MONTHS).contains(&self.term_months) {
            return Err(RuleError::Term(self.term_months));
        }
        if !self.rounding.unit_minor.is_positive() {
            return Err(RuleError::RoundingUnit(self.rounding.unit_minor));
        }
        self.late_fee.check()?;
        self.escrow.check()
    }

    /// Returns the rate for a fraction of a year.
    pub(super) fn rate_of(&self, years: YearFraction) -> Exact {
        exact::rate(self.annual_rate) * exact::years(years)
    }
}

impl Serialize for ProductPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for ProductPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)?.checked().map_err(de::Error::custom)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A policy in cents with only a rate and a term.
    pub(crate) fn policy(percent: &str, term_months: u32) -> ProductPolicy {
        ProductPolicy {
            code: "plain".to_owned(),
            currency: Currency::USD,
            annual_rate: Rate::percent(percent.parse().unwrap()).unwrap(),
            day_count: DayCount::Thirty360,
            term_months,
            rounding: Rounding::default(),
            waterfall: Waterfall::default(),
            prepayment: Prepayment::default(),
            late_fee: LateFeePolicy::default(),
            escrow: EscrowPolicy::default(),
        }
    }

    fn full() -> Value {
        json!({
            "code": "mortgage-30y", "currency": "USD", "annual_rate": "0.03875", "day_count": "30/360",
            "term_months": 360, "rounding": {"unit_minor": "1", "mode": "half_even"},
            "waterfall": ["interest_past_due", "interest_current", "principal", "escrow", "fees_due"],
            "prepayment": "hold",
            "late_fee": {"grace_days": 15, "charge": {"kind": "percent", "of_instalment": "0.05", "cap_minor": "5000"}},
            "escrow": {"monthly_minor": "25000", "advance_limit_minor": "100000"}
        })
    }

    fn refusal(change: impl FnOnce(&mut Value)) -> String {
        let mut json = full();
        change(&mut json);
        serde_json::from_value::<ProductPolicy>(json).unwrap_err().to_string()
    }

    #[test]
    fn a_policy_survives_json() {
        let policy: ProductPolicy = serde_json::from_value(full()).unwrap();
        assert_eq!(serde_json::to_value(&policy).unwrap(), full());
        assert_eq!(serde_json::from_str::<ProductPolicy>(&serde_json::to_string(&policy).unwrap()).unwrap(), policy);
    }

    #[test]
    fn omitted_fields_have_defaults() {
        let text = r#"{"code":"p","currency":"USD","annual_rate":"0","day_count":"ACT/365","term_months":6}"#;
        let read: ProductPolicy = serde_json::from_str(text).unwrap();
        assert_eq!(read.prepayment, Prepayment::ReducePrincipal);
        assert_eq!(read.rounding, Rounding::default());
    }

    #[test]
    fn invalid_policies_are_rejected_with_what_to_change() {
        assert!(refusal(|json| json["term_months"] = json!(601)).contains("choose 1 to 600"));
        assert!(refusal(|json| json["term_months"] = json!(0)).contains("choose 1 to 600"));
        assert!(refusal(|json| json["annual_rate"] = json!("7.5")).contains("0.075 for 7.5 %"));
        assert!(refusal(|json| json["annual_rate"] = json!(0.075)).contains("string"));
        assert!(refusal(|json| json["rounding"]["unit_minor"] = json!("0")).contains("1 or more"));
        assert!(refusal(|json| json["code"] = json!("")).contains("product code"));
        assert!(refusal(|json| json["waterfall"] = json!(["principal"])).contains("never pays `fees_due`"));
        assert!(refusal(|json| json["waterfall"][0] = json!("escrow")).contains("twice"));
        assert!(refusal(|json| json["escrow"]["monthly_minor"] = json!("-1")).contains("negative"));
        assert!(refusal(|json| json["late_fee"]["charge"]["of_instalment"] = json!("1.5")).contains("up to 1"));
        assert!(refusal(|json| json["late_fee"]["grace_days"] = json!(366)).contains("0 to 365"));
        assert!(refusal(|json| json["day_count"] = json!("30/365")).contains("30/360"));
        assert!(refusal(|json| json["late_fees"] = json!({})).contains("unknown field"));
    }
}
