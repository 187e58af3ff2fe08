//! All SQL of authoring.

mod collector;
mod quota;
mod survey;

pub(super) use collector::{
    Collector, Invite, NewCollector, insert_collector, insert_invites, list_collectors, lock_collector,
    set_collector_status,
};
pub(super) use quota::{
    BucketRow, NewBucket, change_bucket, find_conditions, insert_buckets, list_buckets, lock_bucket, retire_bucket,
};
pub(super) use survey::{
    Survey, find_definition, find_survey, insert_survey, list_surveys, lock_survey, publish_draft, save_draft,
    set_survey_status,
};
