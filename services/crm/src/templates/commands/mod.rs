//! Commands on templates. Each writes one audit entry.

mod install_ready;
mod retire;
mod save;

pub(super) use install_ready::install_ready;
pub(super) use retire::retire;
pub(super) use save::{SavedVersion, TemplateDraft, create, save_version};
