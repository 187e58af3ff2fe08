//! Merges the topologies of several services into one.

use serde::Serialize;

use super::Topology;

/// Two services declare the same name differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {what} {name:?} is declared twice with different settings, {left} and {right}: make them equal or rename one"
)]
pub struct MergeConflict {
    /// `exchange` or `queue`.
    pub what: &'static str,
    /// The shared name.
    pub name: String,
    /// The first declaration, as JSON.
    pub left: String,
    /// The second declaration, as JSON.
    pub right: String,
}

impl Topology {
    /// Merges two topologies. Identical declarations are kept once. Fails if a name is declared with different
    /// settings.
    pub fn merge(mut self, other: Topology) -> Result<Topology, MergeConflict> {
        for exchange in other.exchanges {
            add("exchange", &mut self.exchanges, exchange, |one| &one.name)?;
        }
        for queue in other.queues {
            add("queue", &mut self.queues, queue, |one| &one.name)?;
        }
        for binding in other.bindings {
            if !self.bindings.contains(&binding) {
                self.bindings.push(binding);
            }
        }
        Ok(self)
    }
}

fn add<T: PartialEq + Serialize>(
    what: &'static str,
    existing: &mut Vec<T>,
    new: T,
    name: fn(&T) -> &String,
) -> Result<(), MergeConflict> {
    match existing.iter().find(|one| name(one) == name(&new)) {
        None => existing.push(new),
        Some(same) if *same == new => {}
        Some(other) => {
            return Err(MergeConflict { what, name: name(&new).clone(), left: as_json(other), right: as_json(&new) });
        }
    }
    Ok(())
}

fn as_json(value: &impl Serialize) -> String {
    serde_json::to_value(value).unwrap_or_default().to_string()
}
