//! The types that a flag's value can have, and how each is read from a rule.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlagKind {
    /// On or off.
    Boolean,
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number with decimals.
    Float,
    /// A JSON object.
    Object,
}

impl FlagKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Boolean, Self::String, Self::Integer, Self::Float, Self::Object];

    /// Returns the name, as it is stored and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Object => "object",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether `value` has this type. A whole number is also a valid float.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            Self::Boolean => value.is_boolean(),
            Self::String => value.is_string(),
            Self::Integer => value.is_i64(),
            Self::Float => value.is_number(),
            Self::Object => value.is_object(),
        }
    }
}

impl fmt::Display for FlagKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The default of a flag whose value is an object, written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object(pub &'static str);

/// A type that a flag can have in code.
pub trait FlagType: Copy + Send + Sync + 'static {
    /// What an evaluation returns.
    type Answer: Clone + fmt::Debug + PartialEq;
    /// The kind, as rules are checked against it.
    const KIND: FlagKind;

    /// Returns this value as an answer.
    fn answer(self) -> Self::Answer;
    /// Returns a rule's value as an answer; `None` if it has another type.
    fn read(value: &Value) -> Option<Self::Answer>;
    /// Returns this value as JSON.
    fn document(self) -> Value;
    /// Returns the answer of a selected unit if the rules name no value: `true` for booleans, otherwise none.
    fn implied() -> Option<Self::Answer> {
        None
    }
    /// Returns the value of a flag that is off, unless the flag names one: `false` for booleans, otherwise the default.
    fn off(default: Self) -> Self {
        default
    }
}

impl FlagType for bool {
    type Answer = bool;
    const KIND: FlagKind = FlagKind::Boolean;

    fn answer(self) -> bool {
        self
    }
    fn read(value: &Value) -> Option<bool> {
        value.as_bool()
    }
    fn document(self) -> Value {
        Value::Bool(self)
    }
    fn implied() -> Option<bool> {
        Some(true)
    }
    fn off(_: bool) -> bool {
        false
    }
}

impl FlagType for i64 {
    type Answer = i64;
    const KIND: FlagKind = FlagKind::Integer;

    fn answer(self) -> i64 {
        self
    }
    fn read(value: &Value) -> Option<i64> {
        value.as_i64()
    }
    fn document(self) -> Value {
        self.into()
    }
}

impl FlagType for f64 {
    type Answer = f64;
    const KIND: FlagKind = FlagKind::Float;

    fn answer(self) -> f64 {
        self
    }
    fn read(value: &Value) -> Option<f64> {
        value.as_f64()
    }
    fn document(self) -> Value {
        self.into()
    }
}

impl FlagType for &'static str {
    type Answer = Cow<'static, str>;
    const KIND: FlagKind = FlagKind::String;

    fn answer(self) -> Self::Answer {
        Cow::Borrowed(self)
    }
    fn read(value: &Value) -> Option<Self::Answer> {
        value.as_str().map(|text| Cow::Owned(text.to_owned()))
    }
    fn document(self) -> Value {
        self.into()
    }
}

impl FlagType for Object {
    type Answer = Value;
    const KIND: FlagKind = FlagKind::Object;

    /// Returns the parsed object, or null if the text is not valid JSON, which the flag's declaration reports.
    fn answer(self) -> Value {
        self.document()
    }
    fn read(value: &Value) -> Option<Value> {
        value.is_object().then(|| value.clone())
    }
    fn document(self) -> Value {
        serde_json::from_str(self.0).unwrap_or(Value::Null)
    }
}
