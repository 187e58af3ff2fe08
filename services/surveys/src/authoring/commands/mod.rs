//! The authors' commands, one file per noun. Each writes its audit entry in the same transaction.

mod collectors;
mod quotas;
mod surveys;

pub(super) use collectors::{create_collector, create_invites, set_collector_status};
pub(super) use quotas::{NewQuota, change_quota, create_quotas, retire_quota};
pub(super) use surveys::{create_survey, publish_survey, save_definition, set_paused};
