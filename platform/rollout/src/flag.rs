//! A flag in code: its key, its type, its default, and what it is about.

use crate::{FlagContext, FlagKind, FlagType};
use jiff::civil::Date;
use serde_json::Value;

/// The longest key of a flag.
const MAX_KEY: usize = 100;

/// What a percentage selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Tenants. All requests and messages of a tenant have the same answer.
    #[default]
    Tenant,
    /// Ordering keys of tenants, for a canary of messages. All messages with the same key have the same answer, so that old
    /// and new code never alternate within one order.
    OrderingKey,
}

impl Unit {
    /// Returns the name, as it is stored and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::OrderingKey => "ordering_key",
        }
    }

    /// Returns the unit with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Tenant, Self::OrderingKey].into_iter().find(|unit| unit.name() == name)
    }

    /// Returns the targeting key in parts; `None` if the context does not have it.
    pub(crate) fn targeting_key<'a>(self, context: FlagContext<'a>) -> Option<[&'a str; 3]> {
        let filled = |text: Option<&'a str>| text.filter(|text| !text.is_empty());
        let tenant = filled(context.tenant)?;
        match self {
            Self::Tenant => Some([tenant, "", ""]),
            Self::OrderingKey => Some([tenant, ":", filled(context.ordering_key)?]),
        }
    }
}

/// A flag, as a constant of the code that reads it.
///
/// ```
/// use jiff::civil::date;
/// use onceward_rollout::Flag;
///
/// /// Whether loans are created asynchronously.
/// const ASYNC_LOAN_CREATE: Flag<bool> =
///     Flag::new("async-loan-create", false).about("Create loans asynchronously").expires(date(2027, 6, 30));
/// assert_eq!(ASYNC_LOAN_CREATE.key(), "async-loan-create");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Flag<T> {
    key: &'static str,
    pub(crate) default: T,
    off: Option<T>,
    unit: Unit,
    about: &'static str,
    expires: Option<Date>,
}

impl<T: Copy> Flag<T> {
    /// Returns a flag that is `default` unless rules say otherwise. Its unit is the tenant.
    pub const fn new(key: &'static str, default: T) -> Self {
        Self { key, default, off: None, unit: Unit::Tenant, about: "", expires: None }
    }

    /// Sets the value of a flag that is killed, and of units that its percentage does not select. It is `false` for
    /// booleans and the default for all other types unless it is set here.
    pub const fn off(mut self, off: T) -> Self {
        self.off = Some(off);
        self
    }

    /// Replaces the default, for a default that a setting decides.
    pub const fn with_default(mut self, default: T) -> Self {
        self.default = default;
        self
    }

    /// Sets what a percentage selects.
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Describes the flag for operators.
    pub const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Sets the day from which the flag should be gone from the code. It is evaluated as before; `onceward doctor` reports
    /// it.
    pub const fn expires(mut self, day: Date) -> Self {
        self.expires = Some(day);
        self
    }

    /// Returns the key.
    pub const fn key(&self) -> &'static str {
        self.key
    }
}

impl<T: FlagType> Flag<T> {
    /// Returns the flag as data, without its type.
    pub fn declaration(&self) -> FlagDeclaration {
        FlagDeclaration {
            key: self.key,
            kind: T::KIND,
            default: self.default.document(),
            off: self.value_when_off().document(),
            unit: self.unit,
            about: self.about,
            expires: self.expires,
        }
    }

    /// Returns the value of a flag that is off.
    pub(crate) fn value_when_off(&self) -> T {
        self.off.unwrap_or_else(|| T::off(self.default))
    }
}

/// A flag as data: what a service declares and operators see.
#[derive(Clone, Debug, PartialEq)]
pub struct FlagDeclaration {
    /// The key.
    pub key: &'static str,
    /// The type.
    pub kind: FlagKind,
    /// The value if no rule applies.
    pub default: Value,
    /// The value of a killed flag and of units that the percentage does not select.
    pub off: Value,
    /// What a percentage selects.
    pub unit: Unit,
    /// What it is about.
    pub about: &'static str,
    /// The day from which it should be gone.
    pub expires: Option<Date>,
}

impl FlagDeclaration {
    /// Returns everything that is wrong with the declaration.
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
        if self.key.is_empty() || self.key.len() > MAX_KEY || !self.key.bytes().all(allowed) {
            mistakes.push(format!(
                "flag {:?}: a key has 1 to {MAX_KEY} characters of a-z, 0-9, `-`, `.` and `_`",
                self.key
            ));
        }
        for (name, value) in [("default", &self.default), ("value when off", &self.off)] {
            if !self.kind.admits(value) {
                mistakes.push(format!("flag {:?}: its {name} is not of the type {}", self.key, self.kind));
            }
        }
        mistakes
    }
}
