//! The rules of all flags at one moment, and the evaluation of flags with them.

use crate::{
    Decision, ErrorCode, Evaluation, Flag, FlagContext, FlagKind, FlagRules, FlagType, Reason, Selection, Unit,
    rules::salt_mistake,
};
use serde_json::Value;
use std::collections::HashMap;

/// The rules of one flag as they were stored.
#[derive(Clone, Debug, PartialEq)]
pub struct FlagState {
    /// What is hashed before the targeting key. It is stored, so that a renamed flag keeps its buckets.
    pub salt: String,
    /// What the percentage selects.
    pub unit: Unit,
    /// The rules.
    pub rules: FlagRules,
    /// How often the rules were changed.
    pub version: i64,
}

impl FlagState {
    /// Returns everything that is wrong with the state of a flag of this kind.
    pub fn validate(&self, kind: FlagKind) -> Vec<String> {
        salt_mistake(&self.salt).into_iter().chain(self.rules.validate(kind)).collect()
    }
}

/// The rules of all flags at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    flags: HashMap<String, FlagState>,
}

impl FromIterator<(String, FlagState)> for Snapshot {
    fn from_iter<I: IntoIterator<Item = (String, FlagState)>>(flags: I) -> Self {
        Self { flags: flags.into_iter().collect() }
    }
}

impl Snapshot {
    /// Returns the state of a flag; `None` if it is unknown.
    pub fn get(&self, key: &str) -> Option<&FlagState> {
        self.flags.get(key)
    }

    /// Returns the number of flags.
    pub fn len(&self) -> usize {
        self.flags.len()
    }

    /// Whether there are no flags.
    pub fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }

    /// Returns the answer of a process that has never read any rules: the default, with an error.
    pub fn missing<T: FlagType>(flag: &Flag<T>) -> Evaluation<T::Answer> {
        answer(flag, Decision::failed(ErrorCode::ProviderNotReady), None)
    }

    /// Evaluates a flag. With `is_stale`, the reason says that the rules may be out of date.
    pub fn evaluate<T: FlagType>(
        &self,
        flag: &Flag<T>,
        context: FlagContext<'_>,
        is_stale: bool,
    ) -> Evaluation<T::Answer> {
        let (decision, state) = match self.get(flag.key()) {
            Some(state) => (state.rules.decide(&state.salt, state.unit, context), Some(state)),
            None => (Decision::new(Selection::Default, Reason::Default), None),
        };
        let mut evaluation = answer(flag, decision, state.and_then(|state| state.rules.value.as_ref()));
        evaluation.version = state.map_or(0, |state| state.version);
        if is_stale && evaluation.error.is_none() {
            evaluation.reason = Reason::Stale;
        }
        evaluation
    }
}

fn answer<T: FlagType>(flag: &Flag<T>, decision: Decision, on: Option<&Value>) -> Evaluation<T::Answer> {
    let value = match decision.selection {
        Selection::On => on.map_or_else(T::implied, T::read),
        Selection::Off => Some(flag.value_when_off().answer()),
        Selection::Default => Some(flag.default.answer()),
    };
    let (value, Decision { selection, reason, error }) = match value {
        Some(value) => (value, decision),
        None => (flag.default.answer(), Decision::failed(ErrorCode::TypeMismatch)),
    };
    Evaluation { value, selection, reason, error, version: 0 }
}
