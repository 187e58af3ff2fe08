//! What authors command, one noun a file. Each writes its audit entry in the same transaction.

mod collectors;
mod quotas;
mod surveys;

pub(super) use collectors::{create_collector, create_invites, move_collector};
pub(super) use quotas::{NewQuota, change_quota, create_quotas, retire_quota};
pub(super) use surveys::{create_survey, publish_survey, read_definition, save_definition, set_paused};
