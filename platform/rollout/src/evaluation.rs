//! The answer of a flag, in the words of OpenFeature: value, variant, reason and error code.

use std::fmt;

/// For whom a flag is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagContext<'a> {
    /// The tenant.
    pub tenant: Option<&'a str>,
    /// The ordering key of the message.
    pub ordering_key: Option<&'a str>,
}

impl<'a> FlagContext<'a> {
    /// Returns the context of a tenant's request.
    pub const fn tenant(tenant: &'a str) -> Self {
        Self { tenant: Some(tenant), ordering_key: None }
    }

    /// Returns the context of a tenant's message with this ordering key.
    pub const fn message(tenant: &'a str, ordering_key: &'a str) -> Self {
        Self { tenant: Some(tenant), ordering_key: Some(ordering_key) }
    }
}

/// Which of a flag's values is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// The value of the rules.
    On,
    /// The value of units that are not selected.
    Off,
    /// The default in code.
    Default,
}

impl Selection {
    /// Returns the name, which is OpenFeature's variant.
    pub const fn variant(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Default => "default",
        }
    }
}

/// Why a flag has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The percentage is 0 or 100, so that the value does not depend on the targeting key.
    Static,
    /// No rule applies.
    Default,
    /// The list of tenants names the tenant.
    TargetingMatch,
    /// The percentage decided.
    Split,
    /// The kill switch is set.
    Disabled,
    /// The rules may be out of date, because the database is away.
    Stale,
    /// The flag could not be evaluated; the error code says why.
    Error,
}

impl Reason {
    /// Returns OpenFeature's name of the reason.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "STATIC",
            Self::Default => "DEFAULT",
            Self::TargetingMatch => "TARGETING_MATCH",
            Self::Split => "SPLIT",
            Self::Disabled => "DISABLED",
            Self::Stale => "STALE",
            Self::Error => "ERROR",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a flag could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The rules were never read.
    ProviderNotReady,
    /// A percentage needs a targeting key, and the context has none.
    TargetingKeyMissing,
    /// The value in the rules does not have the type of the flag.
    TypeMismatch,
}

impl ErrorCode {
    /// Returns OpenFeature's name of the code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ProviderNotReady => "PROVIDER_NOT_READY",
            Self::TargetingKeyMissing => "TARGETING_KEY_MISSING",
            Self::TypeMismatch => "TYPE_MISMATCH",
        }
    }
}

/// The answer of a flag.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation<A> {
    /// The value.
    pub value: A,
    /// Which of the flag's values it is.
    pub selection: Selection,
    /// Why.
    pub reason: Reason,
    /// Why the flag could not be evaluated. The value is then the default.
    pub error: Option<ErrorCode>,
    /// The version of the rules; 0 if there are none.
    pub version: i64,
}
