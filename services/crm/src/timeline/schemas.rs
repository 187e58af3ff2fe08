//! The JSON Schemas of timelines.

/// All of them.
pub(crate) const SCHEMAS: &[&str] =
    &[include_str!("../../schemas/crm.timeline.v1.json"), include_str!("../../schemas/crm.timeline.rebuilt.v1.json")];
