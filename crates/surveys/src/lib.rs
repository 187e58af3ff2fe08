//! Surveys: respondents who are never turned away by a lost message, and quotas that never overfill.

pub mod events;
pub mod topology;

use onceward::prelude::*;

/// The service, with all it owns.
pub fn service() -> Service {
    Service::new("surveys").schemas(events::SCHEMAS).topology(topology::topology())
}
