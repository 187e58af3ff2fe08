//! The rules of one flag, which operators change, and how they decide. Pure: no I/O, no clock, no randomness.

use crate::{ErrorCode, FlagContext, FlagKind, Percentage, Reason, Selection, Unit, bucket_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The most tenants that a flag can list.
const MAX_TENANTS: usize = 10_000;
/// The longest salt.
const MAX_SALT: usize = 200;

/// The rules of a flag. They decide in the order of these fields; the first that applies does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagRules {
    /// The kill switch: the flag is off for everybody.
    pub is_killed: bool,
    /// The tenants for which the flag is on, whatever the percentage.
    pub tenants: BTreeSet<String>,
    /// The share of units for which the flag is on; it is off for the others. Without a share, the default in code applies.
    pub percentage: Option<Percentage>,
    /// The value of units for which the flag is on. Booleans do without: it is `true`.
    pub value: Option<Value>,
}

/// What rules decided, before the value is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which value.
    pub selection: Selection,
    /// Why.
    pub reason: Reason,
    /// Why nothing could be decided.
    pub error: Option<ErrorCode>,
}

impl Decision {
    pub(crate) const fn new(selection: Selection, reason: Reason) -> Self {
        Self { selection, reason, error: None }
    }

    pub(crate) const fn failed(error: ErrorCode) -> Self {
        Self { selection: Selection::Default, reason: Reason::Error, error: Some(error) }
    }
}

impl FlagRules {
    /// Decides for a context. Takes no lock and allocates nothing.
    pub fn decide(&self, salt: &str, unit: Unit, context: FlagContext<'_>) -> Decision {
        if self.is_killed {
            return Decision::new(Selection::Off, Reason::Disabled);
        }
        if context.tenant.is_some_and(|tenant| self.tenants.contains(tenant)) {
            return Decision::new(Selection::On, Reason::TargetingMatch);
        }
        match self.percentage {
            None => Decision::new(Selection::Default, Reason::Default),
            // Nobody and everybody need no targeting key.
            Some(Percentage::NOBODY) => Decision::new(Selection::Off, Reason::Static),
            Some(Percentage::EVERYBODY) => Decision::new(Selection::On, Reason::Static),
            Some(percentage) => match unit.targeting_key(context) {
                None => Decision::failed(ErrorCode::TargetingKeyMissing),
                Some(key) if percentage.selects(bucket_of(salt, &key)) => Decision::new(Selection::On, Reason::Split),
                Some(_) => Decision::new(Selection::Off, Reason::Split),
            },
        }
    }

    /// Returns everything that is wrong with the rules for a flag of this kind.
    pub fn validate(&self, kind: FlagKind) -> Vec<String> {
        let mut mistakes = Vec::new();
        match &self.value {
            Some(value) if !kind.admits(value) => mistakes.push(format!("the value {value} is not of the type {kind}")),
            None if self.selects_somebody() && kind != FlagKind::Boolean => {
                mistakes.push(format!("a flag of the type {kind} needs a value before it selects anybody"));
            }
            _ => {}
        }
        if self.tenants.len() > MAX_TENANTS {
            mistakes.push(format!("at most {MAX_TENANTS} tenants can be listed; use a percentage"));
        }
        if self.tenants.contains("") {
            mistakes.push("a tenant has a name".to_owned());
        }
        mistakes
    }

    /// Whether anybody can be selected by these rules.
    pub fn selects_somebody(&self) -> bool {
        !self.tenants.is_empty() || self.percentage.is_some_and(|percentage| percentage > Percentage::NOBODY)
    }

    /// Returns the rules as JSON, for the history and the audit chain.
    pub fn document(&self) -> Value {
        json!({
            "killed": self.is_killed,
            "tenants": self.tenants,
            "percentageThousandths": self.percentage.map(Percentage::thousandths),
            "value": self.value,
        })
    }
}

/// Returns what is wrong with a salt.
pub(crate) fn salt_mistake(salt: &str) -> Option<String> {
    (salt.is_empty() || salt.len() > MAX_SALT).then(|| format!("a salt has 1 to {MAX_SALT} bytes"))
}
