//! The authors' side: write definitions and publish them, open collectors, send invites, set quotas.
//!
//! A draft may be invalid. Publishing checks the definition as a whole, together with the quotas that depend on its
//! questions, and reports every fault with its location.

mod commands;
mod routes;
mod store;

pub(crate) use routes::routes;

/// The JSON Schemas of this module.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/survey.new.v1.json"),
    include_str!("../../schemas/survey.draft.v1.json"),
    include_str!("../../schemas/survey.v1.json"),
    include_str!("../../schemas/survey.list.v1.json"),
    include_str!("../../schemas/collector.new.v1.json"),
    include_str!("../../schemas/collector.v1.json"),
    include_str!("../../schemas/collector.list.v1.json"),
    include_str!("../../schemas/invite.new.v1.json"),
    include_str!("../../schemas/invite.list.v1.json"),
    include_str!("../../schemas/quota.new.v1.json"),
    include_str!("../../schemas/quota.change.v1.json"),
    include_str!("../../schemas/quota.list.v1.json"),
    include_str!("../../schemas/quota.bucket.v1.json"),
];
