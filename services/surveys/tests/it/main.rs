//! Tests surveys from the outside, as authors and respondents do: over HTTP, on a real database, with the events on the
//! bus.

mod answers;
mod authoring;
mod bounds;
mod bus;
mod dash;
mod dash_counts;
mod dash_live;
mod model;
mod outage;
mod overfill;
mod pages;
mod quotas;
mod runtime;
mod shared_redis;
mod step_batcher;
mod support;
mod takeover;
