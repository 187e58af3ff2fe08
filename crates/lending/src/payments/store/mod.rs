//! All SQL of payments. Row-level security adds the tenant to every condition.

mod conflict;
mod intake;
mod posting;
mod provider;
mod seen;
mod validation;
mod view;

pub(crate) use conflict::{NewConflict, find_conflict, list_conflicts, note_conflict, resolve_conflict};
pub(crate) use intake::{Known, NewIntake, find_known, insert_intakes};
pub(crate) use posting::*;
pub(crate) use provider::{has_provider, secrets, set_secret};
pub(crate) use seen::{Seen, note_events};
pub(crate) use validation::{Decision, Validation, load_validations, save_validations};
pub(crate) use view::{Whole, find_whole};
